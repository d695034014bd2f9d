# Homebrew's formula. `cargo xtask package` fills in what stands between at-signs, for the archives that it made.
class Seawall < Formula
  desc "Measures what a durable commit costs on a disk, and keeps transaction logs"
  homepage "@REPOSITORY@"
  version "@VERSION@"
  license any_of: ["Apache-2.0", "MIT"]

  on_macos do
    on_arm do
      url "@URL@/@ARCHIVE:aarch64-apple-darwin@"
      sha256 "@SHA256:aarch64-apple-darwin@"
    end
    on_intel do
      url "@URL@/@ARCHIVE:x86_64-apple-darwin@"
      sha256 "@SHA256:x86_64-apple-darwin@"
    end
  end

  on_linux do
    on_arm do
      url "@URL@/@ARCHIVE:aarch64-unknown-linux-musl@"
      sha256 "@SHA256:aarch64-unknown-linux-musl@"
    end
    on_intel do
      url "@URL@/@ARCHIVE:x86_64-unknown-linux-musl@"
      sha256 "@SHA256:x86_64-unknown-linux-musl@"
    end
  end

  def install
    bin.install "seawall"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/seawall.bash" => "seawall"
    zsh_completion.install "completions/_seawall"
    fish_completion.install "completions/seawall.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/seawall --version")
  end
end
