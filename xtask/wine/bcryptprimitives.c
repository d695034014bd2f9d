/* Provides ProcessPrng of bcryptprimitives.dll, from which the Rust standard library seeds its hash maps. Wine 8 has no such DLL, and a program that imports from it does not start there.
 *
 * Test fixture for Wine only, built beside the programs that need it; Windows has the real one. */

#include <windows.h>

/* RtlGenRandom of ntsecapi.h, under the name that advapi32 exports it by. */
BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG bytes);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE buffer, SIZE_T bytes)
{
    while (bytes > 0) {
        ULONG part = bytes > 0x10000 ? 0x10000 : (ULONG)bytes;
        if (!SystemFunction036(buffer, part))
            return FALSE;
        buffer += part;
        bytes -= part;
    }
    return TRUE;
}
