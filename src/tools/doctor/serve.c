/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doctor/serve.c - --serve: shows a job in a browser.
 *
 * A small HTTP server on the loopback interface: one connection at a time, each with a deadline.
 *
 *	/		the page (page.html)
 *	/job.json	the job, as --json prints it
 *	/graph.svg	the job, as --svg prints it
 *
 * Other users of the machine can reach the port, so every request must contain the token, which
 * only this user has seen.  The Host header must name the loopback interface: otherwise a page
 * from elsewhere could make the browser ask on its behalf.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "doctor.h"
#include "util/util.h"

#define REQUEST_MS 2000
#define TOKEN_BYTES 16

struct server {
	const char *folder;
	uint64_t job;
	int listener, port;
	char token[2 * TOKEN_BYTES + 1];
};

/* ---- answers --------------------------------------------------------------------------------- */

static void send_all(int fd, const char *data, size_t bytes)
{
	while (bytes) {
		ssize_t n = send(fd, data, bytes, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return; /* the browser has gone, or does not read in time */
		data += n;
		bytes -= (size_t)n;
	}
}

static void reply(int fd, const char *status, const char *type, const char *body, size_t bytes)
{
	char head[512];
	int n = snprintf(head, sizeof(head),
			 "HTTP/1.1 %s\r\nContent-Type: %s; charset=utf-8\r\nContent-Length: %zu\r\n"
			 "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
			 "X-Content-Type-Options: nosniff\r\n"
			 "Content-Security-Policy: default-src 'none'; connect-src 'self'; "
			 "style-src 'unsafe-inline'; script-src 'unsafe-inline'\r\n"
			 "Connection: close\r\n\r\n",
			 status, type, bytes);

	send_all(fd, head, (size_t)n);
	send_all(fd, body, bytes);
}

static void reply_text(int fd, const char *status, const char *text)
{
	reply(fd, status, "text/plain", text, strlen(text));
}

static void reply_job(const struct server *s, int fd,
		      void (*print)(const struct doctor_job *, FILE *), const char *type)
{
	struct doctor_job job;
	char *text = NULL;
	size_t bytes = 0;
	FILE *out;

	if (doctor_collect(s->folder, s->job, &job)) {
		reply_text(fd, "404 Not Found", "the job has ended\n");
		return;
	}
	out = open_memstream(&text, &bytes);
	if (out) {
		print(&job, out);
		fclose(out);
		reply(fd, "200 OK", type, text, bytes);
	} else {
		reply_text(fd, "500 Internal Server Error", "no memory\n");
	}
	free(text);
	doctor_job_free(&job);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Compares all bytes, so that the time does not show where the tokens differ. */
static int has_token(const struct server *s, const char *query)
{
	const char *given = query ? strstr(query, "token=") : NULL;
	unsigned difference = 0;

	if (!given || strlen(given + 6) < 2 * TOKEN_BYTES)
		return 0;
	for (int i = 0; i < 2 * TOKEN_BYTES; i++)
		difference |= (unsigned)(unsigned char)given[6 + i] ^ (unsigned char)s->token[i];
	return !difference;
}

static int is_local_host(const struct server *s, const char *request)
{
	const char *host = strcasestr(request, "\r\nHost:");
	char number[64], name[64];
	size_t bytes;

	if (!host)
		return 0;
	host += 7;
	host += strspn(host, " ");
	bytes = strcspn(host, "\r\n");
	snprintf(number, sizeof(number), "127.0.0.1:%d", s->port);
	snprintf(name, sizeof(name), "localhost:%d", s->port);
	return (bytes == strlen(number) && !strncmp(host, number, bytes)) ||
	       (bytes == strlen(name) && !strncasecmp(host, name, bytes));
}

static void answer(const struct server *s, int fd, char *request)
{
	int local = is_local_host(s, request);
	char *path = request + 4, *query;
	size_t bytes;

	if (strncmp(request, "GET ", 4)) {
		reply_text(fd, "405 Method Not Allowed", "only GET\n");
		return;
	}
	path[strcspn(path, " \r\n")] = '\0';
	query = strchr(path, '?');
	if (query)
		*query++ = '\0';
	if (!local || !has_token(s, query)) {
		reply_text(fd, "403 Forbidden", "use the address that oriel-doctor printed\n");
	} else if (!strcmp(path, "/")) {
		const char *page = doctor_page(&bytes);

		reply(fd, "200 OK", "text/html", page, bytes);
	} else if (!strcmp(path, "/job.json")) {
		reply_job(s, fd, doctor_json, "application/json");
	} else if (!strcmp(path, "/graph.svg")) {
		reply_job(s, fd, doctor_svg, "image/svg+xml");
	} else {
		reply_text(fd, "404 Not Found", "no such page\n");
	}
}

/* Reads up to the empty line that ends the headers, until the deadline. */
static int read_request(int fd, char *request, size_t bytes)
{
	uint64_t deadline = ori_deadline_ns(REQUEST_MS * 1000000ull);
	size_t used = 0;

	request[0] = '\0';
	while (!strstr(request, "\r\n\r\n")) {
		ssize_t n = used < bytes - 1 && ori_now_ns() < deadline ?
				    recv(fd, request + used, bytes - 1 - used, 0) :
				    0;

		if (n <= 0)
			return -1;
		used += (size_t)n;
		request[used] = '\0';
	}
	return 0;
}

static void serve_one(const struct server *s)
{
	struct timeval limit = { REQUEST_MS / 1000, 0 };
	int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
	char request[4096];

	if (fd < 0) {
		usleep(10000); /* no descriptor, or the browser has gone: do not spin */
		return;
	}
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (!read_request(fd, request, sizeof(request)))
		answer(s, fd, request);
	close(fd);
}

/* ---- start ----------------------------------------------------------------------------------- */

static int open_listener(struct server *s, int port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(at);
	int on = 1;

	s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s->listener < 0)
		return -1;
	setsockopt(s->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(s->listener, (struct sockaddr *)&at, sizeof(at)) || listen(s->listener, 16) ||
	    getsockname(s->listener, (struct sockaddr *)&at, &bytes))
		return -1;
	s->port = ntohs(at.sin_port);
	return 0;
}

int doctor_serve(const char *folder, uint64_t job, int port)
{
	struct server s = { .folder = folder, .job = job };
	unsigned char token[TOKEN_BYTES];

	if (ori_random_bytes(token, sizeof(token)))
		return DOCTOR_EXIT_NONE;
	for (int i = 0; i < TOKEN_BYTES; i++)
		snprintf(s.token + 2 * i, 3, "%02x", token[i]);
	if (open_listener(&s, port)) {
		fprintf(stderr, "oriel-doctor: cannot listen at port %d of 127.0.0.1: %s\n", port,
			strerror(errno));
		return DOCTOR_EXIT_NONE;
	}
	printf("http://127.0.0.1:%d/?token=%s\n", s.port, s.token);
	fflush(stdout);
	for (;;)
		serve_one(&s);
}
