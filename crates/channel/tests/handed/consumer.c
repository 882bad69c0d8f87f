/* Takes packets until the producer ends, and says how many there were, how many bytes, and their sum. `hang` as the third argument: takes none. */
#include <corelane/channel.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **words) {
    int file, connection;
    char why[256] = "";
    struct corelane_channel channel;
    if (count < 3)
        return 2;
    if (corelane_channel_connect(words[1], words[2], &file, 1, &connection, why, sizeof why) != 1) {
        fprintf(stderr, "%s\n", why[0] != 0 ? why : strerror(errno));
        return 3;
    }
    if (corelane_channel_open(&channel, file, connection) != 0)
        return 4;
    puts("ready");
    fflush(stdout);
    if (count > 3)
        for (;;)
            pause();
    unsigned char packet[CORELANE_CHANNEL_PACKET_MAX];
    unsigned long packets = 0, bytes = 0, sum = 0;
    for (;;) {
        int has_ended = corelane_channel_has_ended(&channel);
        ssize_t length;
        while ((length = corelane_channel_take(&channel, packet)) > 0) {
            packets++;
            bytes += (unsigned long)length;
            for (ssize_t i = 0; i < length; i++)
                sum += packet[i];
        }
        if (length < 0)
            return 5;
        if (has_ended)
            break;
        corelane_channel_wait(&channel, -1);
    }
    printf("%lu %lu %lu\n", packets, bytes, sum);
    corelane_channel_close(&channel);
    close(connection);
    return 0;
}
