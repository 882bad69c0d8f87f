/*
 * Packets of a Corelane process for consumers in C: rings in shared memory, one for each lane, which the consumer empties in its own context.
 *
 * There is nothing to link with. A ring has one consumer: give each a thread, or look at them in turn. A packet begins with its IP header.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef CORELANE_CHANNEL_H
#define CORELANE_CHANNEL_H

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/types.h>
#include <unistd.h>

/* syscall(2), which a program that asks for standard C alone is not told of. */
#if !defined(_DEFAULT_SOURCE) && !defined(_GNU_SOURCE)
#ifdef __cplusplus
extern "C" long syscall(long number, ...);
#else
extern long syscall(long number, ...);
#endif
#endif

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "a ring's indices are laid out for machines whose lower half comes first"
#endif

/* Bytes of the longest packet: what corelane_channel_take() needs room for. */
#define CORELANE_CHANNEL_PACKET_MAX 2040
/* Rings that one connection brings, at most. */
#define CORELANE_CHANNEL_RINGS_MAX 128

struct corelane_channel {
    uint64_t *words;
    size_t bytes;
    uint64_t slots;
    uint64_t taken;
    /* What ends with the producer's process, however that ends; and whether it has. */
    int connection;
    int is_gone;
};

/* Where things stand, in words; what the producer writes and what the consumer writes lie two cache lines apart. */
enum {
    CORELANE_CHANNEL_PUT = 16,
    CORELANE_CHANNEL_DROPPED = 17,
    CORELANE_CHANNEL_ENDED = 18,
    CORELANE_CHANNEL_TAKEN = 32,
    CORELANE_CHANNEL_ASLEEP = 33,
    CORELANE_CHANNEL_SLOTS = 48,
    CORELANE_CHANNEL_SLOT_WORDS = 256
};

/*
 * Asks the process that listens at `path` for packets: `request` is "PROTOCOL SOURCE DESTINATION", each end "*", "ADDRESS/BITS", "*:PORT" or
 * "ADDRESS/BITS:PORT", addresses of IPv6 in brackets: "udp * 10.0.0.2/32:7000". At most `most` files of rings are put into `files`; the channel is
 * open until `*connection` is closed. Returns how many; -1 with errno: of socket(2), connect(2), recvmsg(2), or EACCES where the process refuses, in
 * words that are put into `why`, of `why_bytes`; EMFILE where this process has not as many descriptors free as there are rings.
 */
static inline int corelane_channel_connect(const char *path, const char *request, int *files, int most, int *connection, char *why,
                                           size_t why_bytes) {
    struct sockaddr_un address;
    char answer[512], line[512];
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int) * CORELANE_CHANNEL_RINGS_MAX)];
    } control;
    struct iovec bytes;
    struct msghdr message;
    size_t length = strlen(request);
    memset(&address, 0, sizeof address);
    memset(&message, 0, sizeof message);
    address.sun_family = AF_UNIX;
    bytes.iov_base = answer;
    bytes.iov_len = sizeof answer - 1;
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    if (strlen(path) >= sizeof address.sun_path || length + 1 > sizeof line) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    memcpy(line, request, length);
    line[length] = '\n';
    int stream = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), count = 0;
    if (stream < 0)
        return -1;
    ssize_t got = -1;
    if (connect(stream, (struct sockaddr *)&address, sizeof address) == 0) {
        /* Who is refused at once finds the answer, and nobody who reads. */
        ssize_t sent = send(stream, line, length + 1, MSG_NOSIGNAL);
        got = recvmsg(stream, &message, MSG_CMSG_CLOEXEC);
        if (got == 0 && sent < 0)
            got = -1;
    }
    for (struct cmsghdr *part = got < 0 ? NULL : CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        int held = (int)((part->cmsg_len - CMSG_LEN(0)) / sizeof(int)), file;
        for (int i = 0; i < held; i++) {
            memcpy(&file, CMSG_DATA(part) + (size_t)i * sizeof file, sizeof file);
            if (count < most)
                files[count++] = file;
            else
                close(file);
        }
    }
    /* Some were not handed over, for want of descriptors: a channel of some lanes is none. */
    if (got >= 0 && (message.msg_flags & MSG_CTRUNC) != 0) {
        while (count > 0)
            close(files[--count]);
        got = -1;
        errno = EMFILE;
    }
    if (count > 0) {
        *connection = stream;
        return count;
    }
    if (got >= 0) {
        answer[got] = 0;
        if (why && why_bytes > 0) {
            strncpy(why, answer, why_bytes - 1);
            why[why_bytes - 1] = 0;
        }
        errno = EACCES;
    }
    int error = errno;
    close(stream);
    errno = error;
    return -1;
}

/*
 * Maps a ring, and closes its file. `connection` is that which brought it: it tells of a producer that was killed and could not say so. 0; -1 with errno: of
 * fstat(2), mmap(2), or EPROTO for what is no ring of this version.
 */
static inline int corelane_channel_open(struct corelane_channel *channel, int file, int connection) {
    struct stat found;
    int error = fstat(file, &found);
    void *start = MAP_FAILED;
    if (error == 0)
        start = mmap(NULL, (size_t)found.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    error = errno;
    close(file);
    errno = error;
    if (start == MAP_FAILED)
        return -1;
    channel->words = (uint64_t *)start;
    channel->bytes = (size_t)found.st_size;
    uint64_t slots = channel->bytes >= 32 ? channel->words[2] : 0;
    if (slots < 2 || slots > 16384 || (slots & (slots - 1)) || memcmp(start, "CORECHAN", 8) || channel->words[1] != 1 ||
        channel->words[3] != CORELANE_CHANNEL_SLOT_WORDS ||
        channel->bytes < 8 * (CORELANE_CHANNEL_SLOTS + slots * CORELANE_CHANNEL_SLOT_WORDS)) {
        munmap(start, channel->bytes);
        errno = EPROTO;
        return -1;
    }
    channel->slots = slots;
    channel->connection = connection;
    channel->is_gone = 0;
    channel->taken = __atomic_load_n(&channel->words[CORELANE_CHANNEL_TAKEN], __ATOMIC_RELAXED);
    return 0;
}

static inline void corelane_channel_close(struct corelane_channel *channel) { munmap(channel->words, channel->bytes); }

/*
 * Copies the next packet into `packet`, which has room for CORELANE_CHANNEL_PACKET_MAX bytes, and gives its slot back. Bytes of it; 0 if there is none
 * now; -1 with errno EPROTO if the memory makes no sense.
 */
static inline ssize_t corelane_channel_take(struct corelane_channel *channel, void *packet) {
    uint64_t waiting = __atomic_load_n(&channel->words[CORELANE_CHANNEL_PUT], __ATOMIC_ACQUIRE) - channel->taken;
    if (waiting == 0)
        return 0;
    const uint64_t *slot =
        channel->words + CORELANE_CHANNEL_SLOTS + (channel->taken & (channel->slots - 1)) * CORELANE_CHANNEL_SLOT_WORDS;
    uint64_t length = __atomic_load_n(slot, __ATOMIC_RELAXED);
    if (waiting > channel->slots || length > CORELANE_CHANNEL_PACKET_MAX) {
        errno = EPROTO;
        return -1;
    }
    memcpy(packet, slot + 1, length);
    channel->taken++;
    __atomic_store_n(&channel->words[CORELANE_CHANNEL_TAKEN], channel->taken, __ATOMIC_RELEASE);
    return (ssize_t)length;
}

/* Whether the producer has ended. What it had put in before can still be taken. */
static inline int corelane_channel_has_ended(const struct corelane_channel *channel) {
    return channel->is_gone || __atomic_load_n(&channel->words[CORELANE_CHANNEL_ENDED], __ATOMIC_ACQUIRE) != 0;
}

/* Looks whether the producer's process is there still, for a consumer that never waits: corelane_channel_wait() looks by itself. */
static inline void corelane_channel_look(struct corelane_channel *channel) {
    struct pollfd end;
    end.fd = channel->connection;
    end.events = 0;
    end.revents = 0;
    if (poll(&end, 1, 0) > 0 && (end.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0)
        channel->is_gone = 1;
}

/* Packets dropped because the ring was full, or because they were too long. */
static inline uint64_t corelane_channel_dropped(const struct corelane_channel *channel) {
    return __atomic_load_n(&channel->words[CORELANE_CHANNEL_DROPPED], __ATOMIC_RELAXED);
}

/* Sleeps until there is a packet, the producer ends, a signal comes, or `milliseconds` are over (-1: no end of time). */
static inline void corelane_channel_wait(struct corelane_channel *channel, int milliseconds) {
    uint64_t *words = channel->words;
    /* As the kernel takes it, whatever the C library calls it. */
    struct {
        long seconds, nanoseconds;
    } most;
    /* An end changes no number of packets, and that of a process that is killed nothing at all: both are seen a second later at the most. */
    most.seconds = milliseconds < 0 ? 1 : milliseconds / 1000;
    most.nanoseconds = milliseconds < 0 ? 0 : milliseconds % 1000 * 1000000L;
    __atomic_store_n(&words[CORELANE_CHANNEL_ASLEEP], 1, __ATOMIC_RELAXED);
    /* Announced first, looked at then: the producer does both the other way round. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    while (__atomic_load_n(&words[CORELANE_CHANNEL_PUT], __ATOMIC_RELAXED) == channel->taken && !corelane_channel_has_ended(channel)) {
        long answer = syscall(SYS_futex, &words[CORELANE_CHANNEL_PUT], FUTEX_WAIT, (uint32_t)channel->taken, &most, NULL, 0);
        int is_over = milliseconds >= 0 || (answer != 0 && errno == EINTR);
        corelane_channel_look(channel);
        if (is_over)
            break;
    }
    __atomic_store_n(&words[CORELANE_CHANNEL_ASLEEP], 0, __ATOMIC_RELAXED);
}

#endif
