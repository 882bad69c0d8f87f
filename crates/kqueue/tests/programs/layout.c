/* What a C program sees of sys/event.h, a line each: for comparison with what the library was built with. */
#include <sys/event.h>

#include <stddef.h>
#include <stdio.h>

#define NUMBER(name) printf(#name " %lld\n", (long long)(name))

int main(void)
{
	NUMBER(sizeof(struct kevent));
	NUMBER(offsetof(struct kevent, ident));
	NUMBER(offsetof(struct kevent, filter));
	NUMBER(offsetof(struct kevent, flags));
	NUMBER(offsetof(struct kevent, fflags));
	NUMBER(offsetof(struct kevent, data));
	NUMBER(offsetof(struct kevent, udata));
	NUMBER(offsetof(struct kevent, ext));
	return 0;
}
