/*
 * kqueue(2) for Linux: the event queues of the BSDs, with the record of FreeBSD 12 and later.
 *
 * Link with -lcorelane_kqueue. What differs from FreeBSD is listed in kqueue(2)'s section DIFFERENCES.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef CORELANE_SYS_EVENT_H
#define CORELANE_SYS_EVENT_H

#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

struct timespec; /* <time.h> has it, but not in strict C99 */

/* Filters: which kind of thing `ident` names, and what is asked of it. */
#define EVFILT_READ (-1)      /* a descriptor: bytes, connections or an end to read */
#define EVFILT_WRITE (-2)     /* a descriptor: room to write */
#define EVFILT_AIO (-3)       /* an operation of corelane/aio.h; kevent() only enables and disables it */
#define EVFILT_VNODE (-4)     /* a descriptor of a file or folder: what happens to it */
#define EVFILT_PROC (-5)      /* a process id */
#define EVFILT_SIGNAL (-6)    /* a signal number */
#define EVFILT_TIMER (-7)     /* a number of the caller's choice */
#define EVFILT_PROCDESC (-8)  /* a descriptor of a process, as pidfd_open(2) gives */
#define EVFILT_FS (-9)        /* mounts; not available */
#define EVFILT_LIO (-10)      /* a list of such operations */
#define EVFILT_USER (-11)     /* a number of the caller's choice, made active by the caller */
#define EVFILT_SENDFILE (-12) /* reserved */
#define EVFILT_EMPTY (-13)    /* a descriptor whose send buffer has drained */
#define EVFILT_SYSCOUNT 13
#define EVFILT_EXCEPT (-32)   /* a socket: urgent data; OpenBSD's, under a number that is no filter of FreeBSD */

/* Flags: what to do with the change. */
#define EV_ADD 0x0001
#define EV_DELETE 0x0002
#define EV_ENABLE 0x0004
#define EV_DISABLE 0x0008
#define EV_FORCEONESHOT 0x0100 /* deliver once, now */
#define EV_KEEPUDATA 0x0200    /* udata stays what it is; not with EV_ADD */

/* Flags: how it is delivered. */
#define EV_ONESHOT 0x0010  /* deleted once delivered */
#define EV_CLEAR 0x0020    /* told again only after something new */
#define EV_RECEIPT 0x0040  /* answer this change with an EV_ERROR record, whose data is 0 when it went well */
#define EV_DISPATCH 0x0080 /* disabled once delivered */

/* Flags: the library's own, ignored in changes. */
#define EV_SYSFLAGS 0xF000
#define EV_DROP 0x1000  /* not delivered */
#define EV_FLAG1 0x2000 /* for a filter's use */
#define EV_FLAG2 0x4000 /* for a filter's use */
#define EV_ERROR 0x4000 /* a change failed: data is the errno */
#define EV_EOF 0x8000   /* the end: fflags is the socket's errno, if any */

/* fflags of EVFILT_READ, EVFILT_WRITE and EVFILT_EMPTY. */
#define NOTE_LOWAT 0x0001     /* data is this event's own low-water mark, in bytes */
#define NOTE_FILE_POLL 0x0002 /* a regular file is always readable, as poll(2) says */

/* fflags of EVFILT_EXCEPT. */
#define NOTE_OOB 0x0004 /* urgent data */

/* fflags of EVFILT_USER. */
#define NOTE_FFNOP 0x00000000U      /* leave the caller's flags alone */
#define NOTE_FFAND 0x40000000U      /* and them */
#define NOTE_FFOR 0x80000000U       /* or them */
#define NOTE_FFCOPY 0xc0000000U     /* replace them */
#define NOTE_FFCTRLMASK 0xc0000000U /* the bits of the four above */
#define NOTE_FFLAGSMASK 0x00ffffffU /* the bits of the caller's flags */
#define NOTE_TRIGGER 0x01000000U    /* make it active */

/* fflags of EVFILT_VNODE. */
#define NOTE_DELETE 0x0001      /* the last name was removed */
#define NOTE_WRITE 0x0002       /* written to */
#define NOTE_EXTEND 0x0004      /* grew */
#define NOTE_ATTRIB 0x0008      /* owner, mode or times changed */
#define NOTE_LINK 0x0010        /* the count of names changed */
#define NOTE_RENAME 0x0020      /* renamed */
#define NOTE_REVOKE 0x0040      /* access was revoked or the file system unmounted */
#define NOTE_OPEN 0x0080        /* opened */
#define NOTE_CLOSE 0x0100       /* closed by one who could not write */
#define NOTE_CLOSE_WRITE 0x0200 /* closed by one who could write */
#define NOTE_READ 0x0400        /* read from */
#define NOTE_TRUNCATE 0x0800    /* shrank; OpenBSD's, under a bit that is no note of FreeBSD */
#define NOTE_NAMES 0x01000000   /* of a folder: names of entries wait for corelane_names(); not FreeBSD's */

/* fflags of EVFILT_PROC and EVFILT_PROCDESC. */
#define NOTE_EXIT 0x80000000U      /* ended; data is the status of wait(2) */
#define NOTE_FORK 0x40000000U      /* forked */
#define NOTE_EXEC 0x20000000U      /* executed a program */
#define NOTE_PCTRLMASK 0xf0000000U /* the bits of the events above */
#define NOTE_PDATAMASK 0x000fffffU /* the bits left for data */
#define NOTE_TRACK 0x00000001U     /* follow children */
#define NOTE_TRACKERR 0x00000002U  /* a child could not be followed */
#define NOTE_CHILD 0x00000004U     /* this is a child; data is its parent's id */

/* fflags of EVFILT_TIMER: the unit of data, milliseconds where none is given. */
#define NOTE_SECONDS 0x0001
#define NOTE_MSECONDS 0x0002
#define NOTE_USECONDS 0x0004
#define NOTE_NSECONDS 0x0008
#define NOTE_ABSTIME 0x0010 /* data is a time since 1970, not a length of time */

struct kevent {
	uintptr_t ident;       /* what it is about */
	short filter;          /* EVFILT_... */
	unsigned short flags;  /* EV_... */
	unsigned int fflags;   /* NOTE_... of the filter */
	int64_t data;          /* the filter's value */
	void *udata;           /* the caller's, passed through */
	uint64_t ext[4];       /* passed through */
};

/* Fills *kevp. Each argument is evaluated once. */
#define EV_SET(kevp, ident_, filter_, flags_, fflags_, data_, udata_) do { \
	struct kevent *ev_set_ = (kevp); \
	ev_set_->ident = (uintptr_t)(ident_); \
	ev_set_->filter = (short)(filter_); \
	ev_set_->flags = (unsigned short)(flags_); \
	ev_set_->fflags = (unsigned int)(fflags_); \
	ev_set_->data = (int64_t)(data_); \
	ev_set_->udata = (void *)(udata_); \
	ev_set_->ext[0] = 0; \
	ev_set_->ext[1] = 0; \
	ev_set_->ext[2] = 0; \
	ev_set_->ext[3] = 0; \
} while (0)

/* A new queue, or -1 with errno. It is closed by close(2), is not inherited by fork(2), and is closed by exec(3). */
int kqueue(void);

/* As kqueue(). flags is 0 or O_CLOEXEC, which changes nothing; anything else is EINVAL. */
int kqueue1(int flags);

/* As kqueue(). flags is 0 or KQUEUE_CLOEXEC, which changes nothing; anything else is EINVAL. */
#define KQUEUE_CLOEXEC 0x00000001
int kqueuex(unsigned int flags);

/*
 * Applies nchanges changes in order, then waits for events and stores at most nevents. Returns how many were stored,
 * 0 when the time is over, -1 with errno. A null timeout waits for ever; with nevents 0 it never waits.
 */
int kevent(int kq, const struct kevent *changelist, int nchanges, struct kevent *eventlist, int nevents,
    const struct timespec *timeout);

/* An entry of a folder that has changed. */
struct corelane_name {
	unsigned int what; /* CORELANE_NAME_... */
	char name[256];    /* ends with a zero */
};

#define CORELANE_NAME_CREATED 1
#define CORELANE_NAME_REMOVED 2
#define CORELANE_NAME_MOVED_FROM 4 /* what it was called in this folder */
#define CORELANE_NAME_MOVED_TO 8   /* what it is called in this folder */

/* Names of entries that have changed in the folder fd, registered with NOTE_NAMES: stores the oldest, at most room, and forgets them. Returns how
 * many, -1 with errno. Where lost is not null it is how many were lost since the last call. */
int corelane_names(int kq, int fd, struct corelane_name *names, int room, uint64_t *lost);

#ifdef __cplusplus
}
#endif

#endif
