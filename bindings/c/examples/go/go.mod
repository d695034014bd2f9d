module seawall.example/commits

go 1.22
