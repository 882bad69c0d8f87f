/* Reads lines of a key and an input in hexadecimal; prints the hash that DPDK computes of each. */

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <rte_thash.h>

static size_t bytes_of(const char *hex, uint8_t *bytes, size_t most)
{
    size_t length = 0;
    unsigned int byte;

    while (length < most && sscanf(hex + 2 * length, "%2x", &byte) == 1)
        bytes[length++] = (uint8_t)byte;
    return length;
}

int main(int count, char **arguments)
{
    char key_text[128], input_text[128];
    uint8_t key[64], input[64];
    uint32_t words[16];
    FILE *file = count == 2 ? fopen(arguments[1], "r") : NULL;

    if (file == NULL)
        return 2;
    while (fscanf(file, "%127s %127s", key_text, input_text) == 2) {
        size_t length = bytes_of(input_text, input, sizeof(input));

        if (bytes_of(key_text, key, sizeof(key)) != 40 || length % 4 != 0)
            return 3;
        for (size_t at = 0; at < length; at += 4)
            words[at / 4] = (uint32_t)input[at] << 24 | input[at + 1] << 16 | input[at + 2] << 8 | input[at + 3];
        printf("%08x\n", rte_softrss(words, (uint32_t)(length / 4), key));
    }
    return 0;
}
