/*
 * evserver: one page by HTTP, on one of several systems of events: `evserver kqueue|kevent|epoll|poll|uring PORT [CONNECTIONS]`.
 *
 * A single thread; a request ends with an empty line; the answer is a header of 198 bytes and a page of 3,931 bytes, and the connection is
 * closed. Prints the port that it listens at, and ends after CONNECTIONS answers where that is given.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#define _GNU_SOURCE
#include <corelane/kevent.h>
#include <sys/event.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#if __has_include(<linux/io_uring.h>)
#define HAVE_URING
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#endif

enum { HEADER = 198, PAGE = 3931, ANSWER = HEADER + PAGE, HIGHEST = 65536, BATCH = 256, LARGEST = 4096 };

/* What is known of a connection, by its descriptor. */
struct connection {
	int came;     /* bytes of the request so far */
	int sent;     /* bytes of the answer so far */
	int matched;  /* how much of the empty line has come */
	int writes;   /* whether it waits for room */
};

/* A system of events. */
struct system {
	const char *name;
	int (*open)(void);
	void (*watch)(int fd, int writes);         /* a new descriptor, or one that waits for the other thing now */
	void (*forget)(int fd);                    /* before it is closed */
	int (*wait)(int *ready, int room);         /* how many descriptors are ready */
};

static struct connection connections[HIGHEST];
static char answer[ANSWER];
static long answered, wanted;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* kqueue */

static int queue;

static int kqueue_open(void)
{
	queue = kqueue();
	return queue;
}

static void kqueue_watch(int fd, int writes)
{
	struct kevent changes[2];
	int count = 0;

	if (writes)
		EV_SET(&changes[count++], fd, EVFILT_READ, EV_DELETE, 0, 0, NULL);
	EV_SET(&changes[count++], fd, writes ? EVFILT_WRITE : EVFILT_READ, EV_ADD, 0, 0, NULL);
	if (kevent(queue, changes, count, NULL, 0, NULL) < 0)
		die("kevent");
}

static void kqueue_forget(int fd)
{
	(void)fd; /* closing it is enough */
}

static int kqueue_wait(int *ready, int room)
{
	struct kevent events[BATCH];
	int count = kevent(queue, NULL, 0, events, room < BATCH ? room : BATCH, NULL);

	for (int i = 0; i < count; i++)
		ready[i] = (int)events[i].ident;
	return count;
}

/* kevent of 2007: events are read in the ring, and a call is made when that is empty */

#define EVENTS 1000

static struct kevent_ring *shared;
static int kevents;

static int kevent_open(void)
{
	shared = kevent_ring_map(EVENTS);
	kevents = shared ? kevent_init(shared, EVENTS, 0) : -1;
	return kevents;
}

static void kevent_watch(int fd, int writes)
{
	struct ukevent one = { .id = { .raw_u64 = (uint64_t)fd }, .type = KEVENT_SOCKET, .req_flags = KEVENT_REQ_ALWAYS_QUEUE };

	one.event = writes ? KEVENT_SOCKET_SEND : KEVENT_SOCKET_RECV;
	if (kevent_ctl(kevents, writes ? KEVENT_CTL_MODIFY : KEVENT_CTL_ADD, 1, &one) < 0)
		die("kevent_ctl");
}

static void kevent_forget(int fd)
{
	(void)fd; /* closing it is enough, and is told */
}

static int kevent_ready(int *ready, int room)
{
	const struct timespec never = { .tv_sec = -1 };
	uint32_t index = shared->ring_uidx, over = shared->ring_over, come;
	int count = 0;

	while ((come = kevent_ring_count(shared, shared->ring_consumed, EVENTS)) == 0)
		if (kevent_wait(kevents, EVENTS, index, never, 0) < 0)
			return -1;
	for (int i = 0; i < room && come > 0; i++, come--) {
		if (!(shared->event[index].ret_flags & KEVENT_RET_BROKEN))
			ready[count++] = (int)shared->event[index].id.raw_u64;
		if (++index == EVENTS) {
			index = 0;
			over++;
		}
	}
	return kevent_commit(kevents, index, over) < 0 ? -1 : count;
}

/* epoll */

static int set;

static int epoll_open(void)
{
	set = epoll_create1(EPOLL_CLOEXEC);
	return set;
}

static void epoll_watch(int fd, int writes)
{
	struct epoll_event event = { .events = writes ? EPOLLOUT : EPOLLIN, .data.fd = fd };

	if (epoll_ctl(set, writes ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) < 0)
		die("epoll_ctl");
}

static void epoll_forget(int fd)
{
	(void)fd;
}

static int epoll_ready(int *ready, int room)
{
	struct epoll_event events[BATCH];
	int count = epoll_wait(set, events, room < BATCH ? room : BATCH, -1);

	for (int i = 0; i < count; i++)
		ready[i] = events[i].data.fd;
	return count;
}

/* poll */

static struct pollfd polled[HIGHEST];
static int place[HIGHEST];
static int polled_count;

static int poll_open(void)
{
	return 0;
}

static void poll_watch(int fd, int writes)
{
	if (!writes) {
		place[fd] = polled_count++;
		polled[place[fd]].fd = fd;
	}
	polled[place[fd]].events = writes ? POLLOUT : POLLIN;
}

static void poll_forget(int fd)
{
	polled[place[fd]] = polled[--polled_count];
	place[polled[place[fd]].fd] = place[fd];
}

static int poll_ready(int *ready, int room)
{
	int count = 0;

	if (poll(polled, (nfds_t)polled_count, -1) < 0)
		return -1;
	for (int i = 0; i < polled_count && count < room; i++)
		if (polled[i].revents)
			ready[count++] = polled[i].fd;
	return count;
}

/* io_uring: a poll stays, and tells again when more comes; its name is the descriptor and how many polls the number had before */

#ifdef HAVE_URING
enum { ENTRIES = 1024 };

static int ring;
static unsigned ring_size, unsubmitted, *requests_tail, *completions_head, *completions_tail, completions_mask;
static struct io_uring_sqe *requests;
static struct io_uring_cqe *completions;
static uint32_t polls[HIGHEST], told_in[HIGHEST], wait_number;

static uint64_t poll_name(int fd)
{
	return (uint64_t)polls[fd] << 32 | (uint32_t)fd;
}

static int uring_open(void)
{
	struct io_uring_params given = { .flags = IORING_SETUP_CQSIZE, .cq_entries = HIGHEST };
	char *rings;

	ring = (int)syscall(SYS_io_uring_setup, ENTRIES, &given);
	if (ring < 0)
		return -1;
	ring_size = given.sq_entries;
	/* The places of requests stand behind the completions, or before them. */
	size_t places = given.sq_off.array + ring_size * sizeof(unsigned);
	size_t told = given.cq_off.cqes + given.cq_entries * sizeof *completions;
	rings = mmap(NULL, places > told ? places : told, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	requests = mmap(NULL, ring_size * sizeof *requests, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
	if (rings == MAP_FAILED || (void *)requests == MAP_FAILED)
		return -1;
	for (unsigned i = 0; i < ring_size; i++)
		((unsigned *)(rings + given.sq_off.array))[i] = i;
	requests_tail = (unsigned *)(rings + given.sq_off.tail);
	completions_head = (unsigned *)(rings + given.cq_off.head);
	completions_tail = (unsigned *)(rings + given.cq_off.tail);
	completions_mask = *(unsigned *)(rings + given.cq_off.ring_mask);
	completions = (struct io_uring_cqe *)(rings + given.cq_off.cqes);
	return ring;
}

/* Hands over what was asked for, and waits for so many answers. */
static int uring_enter(unsigned answers)
{
	int taken = (int)syscall(SYS_io_uring_enter, ring, unsubmitted, answers, answers ? IORING_ENTER_GETEVENTS : 0, NULL, 0);

	unsubmitted -= taken > 0 ? (unsigned)taken : 0;
	return taken;
}

static void uring_ask(struct io_uring_sqe request)
{
	if (unsubmitted == ring_size && uring_enter(0) < 0)
		die("io_uring_enter");
	requests[*requests_tail & (ring_size - 1)] = request;
	__atomic_store_n(requests_tail, *requests_tail + 1, __ATOMIC_RELEASE);
	unsubmitted++;
}

static void uring_forget(int fd)
{
	/* Until it is gone the poll holds the connection open. */
	uring_ask((struct io_uring_sqe){ .opcode = IORING_OP_ASYNC_CANCEL, .addr = poll_name(fd), .user_data = UINT64_MAX });
	polls[fd]++;
}

static void uring_poll(int fd, int writes)
{
	struct io_uring_sqe request = { .opcode = IORING_OP_POLL_ADD, .fd = fd, .len = IORING_POLL_ADD_MULTI, .user_data = poll_name(fd) };

	request.poll32_events = writes ? POLLOUT : POLLIN;
	uring_ask(request);
}

static void uring_watch(int fd, int writes)
{
	if (writes)
		uring_forget(fd);
	uring_poll(fd, writes);
}

static int uring_ready(int *ready, int room)
{
	unsigned head = *completions_head;
	int count = 0;

	wait_number++;
	if (uring_enter(head == __atomic_load_n(completions_tail, __ATOMIC_ACQUIRE)) < 0)
		return -1;
	for (; count < room && head != __atomic_load_n(completions_tail, __ATOMIC_ACQUIRE); head++) {
		struct io_uring_cqe *told = &completions[head & completions_mask];
		int fd = (int)(uint32_t)told->user_data;

		if (told->user_data == UINT64_MAX || told->user_data != poll_name(fd))
			continue;
		if (!(told->flags & IORING_CQE_F_MORE))
			uring_poll(fd, connections[fd].writes);
		/* Once is enough, whatever came: by the second time it may be another connection. */
		if (told_in[fd] != wait_number)
			ready[count++] = fd;
		told_in[fd] = wait_number;
	}
	__atomic_store_n(completions_head, head, __ATOMIC_RELEASE);
	return count;
}
#endif

static const struct system systems[] = {
	{ "kqueue", kqueue_open, kqueue_watch, kqueue_forget, kqueue_wait },
	{ "kevent", kevent_open, kevent_watch, kevent_forget, kevent_ready },
	{ "epoll", epoll_open, epoll_watch, epoll_forget, epoll_ready },
	{ "poll", poll_open, poll_watch, poll_forget, poll_ready },
#ifdef HAVE_URING
	{ "uring", uring_open, uring_watch, uring_forget, uring_ready },
#endif
};

/* The server */

static void fill_answer(void)
{
	int used = snprintf(answer, sizeof answer,
	    "HTTP/1.1 200 OK\r\nServer: evserver\r\nContent-Type: text/html\r\nContent-Length: %d\r\nConnection: close\r\nX-Pad: ", PAGE);

	memset(answer + used, '.', (size_t)(HEADER - 4 - used));
	memcpy(answer + HEADER - 4, "\r\n\r\n", 4);
	memset(answer + HEADER, 'p', PAGE);
	memcpy(answer + HEADER, "<html><body>", 12);
	memcpy(answer + ANSWER - 15, "</body></html>\n", 15);
}

static int listener_at(int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	socklen_t length = sizeof address;
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0)
		die("socket");
	if (bind(fd, (struct sockaddr *)&address, length) < 0 || listen(fd, 4096) < 0)
		die("bind");
	if (getsockname(fd, (struct sockaddr *)&address, &length) < 0)
		die("getsockname");
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
	return fd;
}

static void accept_all(const struct system *system, int listener)
{
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		if (fd >= HIGHEST) {
			close(fd);
			continue;
		}
		memset(&connections[fd], 0, sizeof connections[fd]);
		system->watch(fd, 0);
	}
}

static void end(const struct system *system, int fd)
{
	system->forget(fd);
	close(fd);
}

/* Whether the request is whole: an empty line has come. */
static int matches(struct connection *connection, const char *bytes, ssize_t count)
{
	static const char line[] = "\r\n\r\n";

	for (ssize_t i = 0; i < count && connection->matched < 4; i++)
		connection->matched = bytes[i] == line[connection->matched] ? connection->matched + 1 : bytes[i] == '\r';
	return connection->matched == 4;
}

static void send_rest(const struct system *system, int fd)
{
	struct connection *connection = &connections[fd];
	ssize_t sent = send(fd, answer + connection->sent, (size_t)(ANSWER - connection->sent), MSG_NOSIGNAL);

	if (sent < 0 && errno != EAGAIN) {
		end(system, fd);
		return;
	}
	connection->sent += sent > 0 ? (int)sent : 0;
	if (connection->sent == ANSWER) {
		answered++;
		end(system, fd);
	} else if (!connection->writes) {
		connection->writes = 1;
		system->watch(fd, 1);
	}
}

static void receive(const struct system *system, int fd)
{
	char bytes[LARGEST];
	struct connection *connection = &connections[fd];
	ssize_t came = recv(fd, bytes, sizeof bytes, 0);

	if (came < 0 && errno == EAGAIN)
		return;
	if (came <= 0 || (connection->came += (int)came) > LARGEST)
		end(system, fd);
	else if (matches(connection, bytes, came))
		send_rest(system, fd);
}

static void serve(const struct system *system, int listener)
{
	int ready[BATCH];

	system->watch(listener, 0);
	while (wanted == 0 || answered < wanted) {
		int count = system->wait(ready, BATCH);

		if (count < 0 && errno != EINTR)
			die(system->name);
		for (int i = 0; i < count; i++) {
			if (ready[i] == listener)
				accept_all(system, listener);
			else if (connections[ready[i]].writes)
				send_rest(system, ready[i]);
			else
				receive(system, ready[i]);
		}
	}
}

int main(int argc, char **argv)
{
	const struct system *system = NULL;

	for (size_t i = 0; argc >= 3 && i < sizeof systems / sizeof systems[0]; i++)
		if (strcmp(argv[1], systems[i].name) == 0)
			system = &systems[i];
	if (!system) {
		fprintf(stderr, "usage: evserver kqueue|kevent|epoll|poll|uring PORT [CONNECTIONS]\n");
		return 2;
	}
	wanted = argc > 3 ? atol(argv[3]) : 0;
	fill_answer();
	if (system->open() < 0)
		die(system->name);
	serve(system, listener_at(atoi(argv[2])));
	return 0;
}
