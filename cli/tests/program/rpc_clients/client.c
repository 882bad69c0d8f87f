/* Calls through libtirpc, as its manual pages show them (rpc_clnt_create(3t), rpc_clnt_calls(3t), rpc_clnt_auth(3t)).
 *
 *   client calls tcp|udp ADDRESS PORT      every kind of call, at a port that is told
 *   client found tcp|udp ADDRESS           one call, at the port that rpcbind tells
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rpc/rpc.h>

enum { NFS = 100003, NFS_VERSION = 3, ECHO = 0x20000007, ECHO_VERSION = 1, PAYLOAD = 1, NULL_CALLS = 100 };
enum { BUFFER = 16 * 1024, MOST = 1000000, MOST_IN_DATAGRAM = 8000 };

static const struct timeval patience = { 60, 0 };

struct bytes {
	u_int length;
	char *data;
};

static void check(int is_right, const char *what)
{
	if (!is_right) {
		fprintf(stderr, "not as expected: %s\n", what);
		exit(1);
	}
}

/* A client of a program at a port. */
static CLIENT *connected(const char *protocol, const char *address, int port, u_long program, u_long version)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((unsigned short)port) };
	int s = RPC_ANYSOCK;
	CLIENT *client;

	check(inet_pton(AF_INET, address, &to.sin_addr) == 1, address);
	if (strcmp(protocol, "udp") == 0)
		client = clntudp_create(&to, program, version, (struct timeval){ 5, 0 }, &s);
	else
		client = clnttcp_create(&to, program, version, &s, BUFFER, BUFFER);
	if (client == NULL) {
		clnt_pcreateerror(address);
		exit(1);
	}
	return client;
}

static bool_t xdr_payload(XDR *xdrs, struct bytes *payload)
{
	return xdr_bytes(xdrs, &payload->data, &payload->length, MOST);
}

/* A length without the bytes that it announces. */
static bool_t xdr_cut(XDR *xdrs, u_int *length)
{
	return xdr_u_int(xdrs, length);
}

static enum clnt_stat null(CLIENT *client, rpcproc_t procedure)
{
	return clnt_call(client, procedure, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_void, NULL, patience);
}

static void echo(CLIENT *client, u_int length)
{
	struct bytes there = { length, malloc(length + 1) }, back = { 0, NULL };
	u_int i;

	check(there.data != NULL, "memory");
	for (i = 0; i < length; i++)
		there.data[i] = (char)(i * 31 + length);
	if (clnt_call(client, PAYLOAD, (xdrproc_t)xdr_payload, &there, (xdrproc_t)xdr_payload, &back, patience) != RPC_SUCCESS) {
		fprintf(stderr, "%s\n", clnt_sperror(client, "echo"));
		exit(1);
	}
	check(back.length == length && (length == 0 || memcmp(there.data, back.data, length) == 0), "the bytes that come back");
	xdr_free((xdrproc_t)xdr_payload, &back);
	free(there.data);
}

static void refusals(const char *protocol, const char *address, int port)
{
	struct rpc_err why;
	CLIENT *client = connected(protocol, address, port, NFS, NFS_VERSION + 6);

	check(null(client, NULLPROC) == RPC_PROGVERSMISMATCH, "a version that there is not");
	clnt_geterr(client, &why);
	check(why.re_vers.low == NFS_VERSION && why.re_vers.high == NFS_VERSION + 1, "the versions that there are");
	clnt_destroy(client);
	client = connected(protocol, address, port, NFS + 96, 1);
	check(null(client, NULLPROC) == RPC_PROGUNAVAIL, "a program that there is not");
	clnt_destroy(client);
}

static void calls(const char *protocol, const char *address, int port, int is_user)
{
	static const u_int lengths[] = { 0, 1, 2, 3, 4, 1000, MOST_IN_DATAGRAM, 65536, MOST };
	u_int cut = 100, most = strcmp(protocol, "udp") == 0 ? MOST_IN_DATAGRAM : MOST;
	CLIENT *nfs = connected(protocol, address, port, NFS, NFS_VERSION);
	CLIENT *echoes = connected(protocol, address, port, ECHO, ECHO_VERSION);
	size_t i;

	if (is_user) {
		nfs->cl_auth = authunix_create_default();
		echoes->cl_auth = authunix_create_default();
	}
	for (i = 0; i < NULL_CALLS; i++)
		check(null(nfs, NULLPROC) == RPC_SUCCESS, "a null call");
	check(null(nfs, 99) == RPC_PROCUNAVAIL, "a procedure that there is not");
	check(null(nfs, NULLPROC) == RPC_SUCCESS, "a null call behind a refused one");
	for (i = 0; i < sizeof lengths / sizeof lengths[0] && lengths[i] <= most; i++)
		echo(echoes, lengths[i]);
	check(clnt_call(echoes, PAYLOAD, (xdrproc_t)xdr_cut, &cut, (xdrproc_t)xdr_void, NULL, patience) == RPC_CANTDECODEARGS,
	      "arguments that are cut short");
	echo(echoes, 5);
	clnt_destroy(nfs);
	clnt_destroy(echoes);
}

static void found(const char *protocol, const char *address)
{
	CLIENT *client = clnt_create(address, NFS, NFS_VERSION, protocol);

	if (client == NULL) {
		clnt_pcreateerror(address);
		exit(1);
	}
	check(null(client, NULLPROC) == RPC_SUCCESS, "a null call where rpcbind says");
	clnt_destroy(client);
}

int main(int count, char **words)
{
	if (count == 5 && strcmp(words[1], "calls") == 0) {
		calls(words[2], words[3], atoi(words[4]), 0);
		calls(words[2], words[3], atoi(words[4]), 1);
		refusals(words[2], words[3], atoi(words[4]));
	} else if (count == 4 && strcmp(words[1], "found") == 0) {
		found(words[2], words[3]);
	} else {
		fprintf(stderr, "expected: calls tcp|udp ADDRESS PORT, or found tcp|udp ADDRESS\n");
		return 2;
	}
	puts("all as expected");
	return 0;
}
