/*
 * Operations that complete through a queue: each is told once, by kevent(), as an event with the filter EVFILT_AIO.
 * kqueue(2) of this package says what they mean.
 */
#ifndef CORELANE_AIO_H
#define CORELANE_AIO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/event.h>
#include <sys/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CORELANE_AIO_RECV 1     /* descriptor, buffer, length, least */
#define CORELANE_AIO_SEND 2     /* descriptor, buffer, length */
#define CORELANE_AIO_ACCEPT 3   /* descriptor, which listens and does not block */
#define CORELANE_AIO_CONNECT 4  /* descriptor, which does not block; address, address_length */
#define CORELANE_AIO_SENDFILE 5 /* descriptor, which does not block; file, offset, length */
#define CORELANE_AIO_SENDPATH 6 /* descriptor, which does not block; path, offset, length */
#define CORELANE_AIO_READ 7     /* descriptor, a file; buffer, length, offset */
#define CORELANE_AIO_WRITE 8    /* descriptor, a file; buffer, length, offset */
#define CORELANE_AIO_FSYNC 9    /* descriptor, a file */

/* What is to be done. It is copied when it is submitted; its address is the ident of its event. The buffer is the
 * operation's until that event is told. */
struct corelane_aio {
	int operation;                  /* CORELANE_AIO_... */
	int descriptor;                 /* the socket, or the file that is read or written */
	int file;                       /* SENDFILE: an open file */
	socklen_t address_length;       /* CONNECT */
	const char *path;               /* SENDPATH: the file that is opened, sent and closed */
	const struct sockaddr *address; /* CONNECT */
	void *buffer;                   /* only read by SEND and WRITE */
	size_t length;                  /* of the buffer; how many bytes of a file are sent at most */
	size_t least;                   /* RECV: as many bytes are enough; 0 for all */
	int64_t offset;                 /* in the file */
	void *udata;                    /* comes back with the event */
};

/* Begins an operation. 0, or -1 with errno: then there is no event. */
int corelane_aio_submit(int kq, const struct corelane_aio *aio);

/* Begins count operations. Each has its event; one of the filter EVFILT_LIO, whose ident is the address of the list, tells that all are over.
 * 0, or -1 with errno: then nothing was begun. */
int corelane_lio_submit(int kq, const struct corelane_aio *const list[], int count, void *udata);

/* Asks an operation to end where it is; its event comes as ever. 0, or -1 with errno ENOENT where none is under way. */
int corelane_aio_cancel(int kq, const struct corelane_aio *aio);

/* How many bytes an operation has moved whose event was not told; how many it may yet, where left is not null. -1 with
 * errno ENOENT where there is none. */
int64_t corelane_aio_progress(int kq, const struct corelane_aio *aio, int64_t *left);

#ifdef __cplusplus
}
#endif

#endif
