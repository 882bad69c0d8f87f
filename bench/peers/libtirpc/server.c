/* A server on libtirpc as its manual pages show it (rpc_svc_create(3t), svc_run in rpc_svc_calls(3t)): one thread, a buffer
 * a connection, procedure 0 of NFS version 3. libtirpc sets TCP_NODELAY itself. No rpcbind: clients are told the port.
 *
 * server tcp|udp ADDRESS:PORT BYTES, of a buffer; prints `ready` when it listens. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <rpc/rpc.h>

/* The queues are those that the other peers ask for: what is dropped is not to be compared. */
enum { PROGRAM = 100003, VERSION = 3, QUEUE = 4 * 1024 * 1024, BACKLOG = 1024 };

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void dispatch(struct svc_req *request, SVCXPRT *transport)
{
	if (request->rq_proc != NULLPROC)
		svcerr_noproc(transport);
	else if (!svc_sendreply(transport, (xdrproc_t)xdr_void, NULL))
		svcerr_systemerr(transport);
}

static struct sockaddr_in address_of(char *text)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	char *colon = strrchr(text, ':');

	if (colon != NULL) {
		*colon = '\0';
		address.sin_port = htons((unsigned short)atoi(colon + 1));
	}
	if (colon == NULL || inet_pton(AF_INET, text, &address.sin_addr) != 1) {
		fprintf(stderr, "%s is no address and port of IPv4\n", text);
		exit(2);
	}
	return address;
}

static SVCXPRT *listen_at(int type, struct sockaddr_in address, unsigned buffer)
{
	int one = 1, queue = QUEUE, s = socket(AF_INET, type, 0);

	if (s < 0 || setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0)
		fail("socket");
	if (bind(s, (struct sockaddr *)&address, sizeof address) < 0)
		fail("bind");
	if (type == SOCK_DGRAM) {
		setsockopt(s, SOL_SOCKET, SO_RCVBUF, &queue, sizeof queue);
		setsockopt(s, SOL_SOCKET, SO_SNDBUF, &queue, sizeof queue);
		return svc_dg_create(s, buffer, buffer);
	}
	if (listen(s, BACKLOG) < 0)
		fail("listen");
	return svc_vc_create(s, buffer, buffer);
}

int main(int count, char **words)
{
	SVCXPRT *transport;
	int buffer = count == 4 ? atoi(words[3]) : 0;

	if (buffer <= 0 || (strcmp(words[1], "tcp") != 0 && strcmp(words[1], "udp") != 0)) {
		fprintf(stderr, "expected: tcp|udp ADDRESS:PORT BYTES\n");
		return 2;
	}
	transport = listen_at(strcmp(words[1], "udp") == 0 ? SOCK_DGRAM : SOCK_STREAM, address_of(words[2]),
			      (unsigned)buffer);
	if (transport == NULL || !svc_reg(transport, PROGRAM, VERSION, dispatch, NULL)) {
		fprintf(stderr, "libtirpc does not take the socket\n");
		return 1;
	}
	puts("ready");
	fflush(stdout);
	svc_run();
	return 1;
}
