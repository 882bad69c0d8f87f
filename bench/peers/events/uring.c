/*
 * Polls and timeouts by io_uring(7), called directly. A poll tells of what comes, again and again, and not of what was there before.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#define _GNU_SOURCE
#include "events.h"

#include <linux/io_uring.h>
#include <stdint.h>
#include <string.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef IORING_TIMEOUT_MULTISHOT
#define IORING_TIMEOUT_MULTISHOT (1U << 6)
#endif

enum { ENTRIES = 256, COMPLETIONS = 32768 };
static const uint64_t NOBODY = UINT64_MAX;

static int ring;
static unsigned *submitted, *completed_head, *completed_tail, submit_mask, complete_mask;
static struct io_uring_sqe *requests;
static struct io_uring_cqe *completions;
static int descriptors[HIGHEST];
static struct __kernel_timespec periods[HIGHEST];
static int timers;

static void uring_open(void)
{
	struct io_uring_params given = { .flags = IORING_SETUP_CQSIZE, .cq_entries = COMPLETIONS };
	char *rings;
	unsigned *places;

	ring = (int)checked(syscall(SYS_io_uring_setup, ENTRIES, &given), "io_uring_setup");
	/* The places of requests stand behind the completions, or before them. */
	size_t placed = given.sq_off.array + given.sq_entries * sizeof *places;
	size_t told = given.cq_off.cqes + given.cq_entries * sizeof *completions;
	rings = mmap(NULL, placed > told ? placed : told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
	requests = mmap(NULL, given.sq_entries * sizeof *requests, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
	if (rings == MAP_FAILED || requests == MAP_FAILED)
		checked(-1, "mmap");
	submitted = (unsigned *)(rings + given.sq_off.tail);
	submit_mask = *(unsigned *)(rings + given.sq_off.ring_mask);
	places = (unsigned *)(rings + given.sq_off.array);
	for (unsigned i = 0; i < given.sq_entries; i++)
		places[i] = i;
	completed_head = (unsigned *)(rings + given.cq_off.head);
	completed_tail = (unsigned *)(rings + given.cq_off.tail);
	complete_mask = *(unsigned *)(rings + given.cq_off.ring_mask);
	completions = (struct io_uring_cqe *)(rings + given.cq_off.cqes);
}

/* Hands one request over at once. */
static void submit(struct io_uring_sqe request)
{
	unsigned tail = *submitted;

	requests[tail & submit_mask] = request;
	__atomic_store_n(submitted, tail + 1, __ATOMIC_RELEASE);
	checked(syscall(SYS_io_uring_enter, ring, 1, 0, 0, NULL, 0), "io_uring_enter");
}

static void poll_it(int which, int fd)
{
	struct io_uring_sqe request = { .opcode = IORING_OP_POLL_ADD, .fd = fd, .len = IORING_POLL_ADD_MULTI, .user_data = (uint64_t)which };

	request.poll32_events = POLLIN | POLLRDHUP;
	submit(request);
}

static void uring_add(int which, int fd)
{
	descriptors[which] = fd;
	poll_it(which, fd);
}

static void uring_remove(int which, int fd)
{
	(void)fd;
	submit((struct io_uring_sqe){ .opcode = IORING_OP_POLL_REMOVE, .addr = (uint64_t)which, .user_data = NOBODY });
	/* The poll's own end, and the removal's. */
	__atomic_store_n(completed_head, __atomic_load_n(completed_tail, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
}

static void uring_timer(int which, long period_ns)
{
	periods[which] = (struct __kernel_timespec){ period_ns / 1000000000, period_ns % 1000000000 };
	struct io_uring_sqe request = { .opcode = IORING_OP_TIMEOUT, .len = 1, .user_data = (uint64_t)which };

	request.addr = (uint64_t)(uintptr_t)&periods[which];
	request.timeout_flags = IORING_TIMEOUT_MULTISHOT;
	submit(request);
	timers = 1;
}

static int uring_wait(struct event *events)
{
	unsigned head = *completed_head, tail = __atomic_load_n(completed_tail, __ATOMIC_ACQUIRE);
	int count = 0;

	if (head == tail) {
		checked(syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0), "io_uring_enter");
		tail = __atomic_load_n(completed_tail, __ATOMIC_ACQUIRE);
	}
	for (; head != tail && count < BATCH; head++) {
		struct io_uring_cqe *told = &completions[head & complete_mask];
		int which = (int)told->user_data;

		if (told->user_data == NOBODY)
			continue;
		if (!timers && !(told->flags & IORING_CQE_F_MORE))
			poll_it(which, descriptors[which]);
		events[count++] = (struct event){ which, timers ? 1 : bytes_at(descriptors[which]) };
	}
	__atomic_store_n(completed_head, head, __ATOMIC_RELEASE);
	return count;
}

const struct system uring_system = { "uring", uring_open, uring_add, uring_remove, uring_timer, uring_wait };
