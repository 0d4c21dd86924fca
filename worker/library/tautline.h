/* The C interface of Tautline: programs of any language as members of a training.
 *
 * A program connects to a cluster, submits a job with external members or joins one, adds its
 * tables, and then, at each clock, pushes an update of every table, pulls the values of the next
 * clock, and ends the clock. The servers apply the updates by the job's rule under its staleness
 * bound.
 *
 * Every function returns TAUTLINE_OK or the kind of its error, whose one line for people
 * tautline_error() returns until this thread's next call. Nothing is thrown across this interface.
 * Handles are opaque. A member serves one call at a time; tautline_fail(), tautline_cancel() and
 * tautline_close() may be called during one, and end it. Functions and values of this version keep
 * their meaning in later ones.
 */
#ifndef TAUTLINE_H
#define TAUTLINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TAUTLINE_API __attribute__((visibility("default")))
#else
#define TAUTLINE_API
#endif

typedef enum tautline_code {
  TAUTLINE_OK = 0,
  TAUTLINE_INVALID = 1,     /* wrong use: a field, a shape, two threads, a job that cannot be */
  TAUTLINE_NOT_FOUND = 2,   /* a job, a table or a key does not exist */
  TAUTLINE_TIMEOUT = 3,     /* a server or the coordinator says nothing */
  TAUTLINE_UNAVAILABLE = 4, /* refused by the coordinator, or it cannot be reached */
  TAUTLINE_STALE = 5,       /* this member was declared lost: it can only join again */
  TAUTLINE_MISMATCH = 6,    /* the two sides differ: version, job, tables */
  TAUTLINE_STOPPED = 7,     /* the job is over, or the member has left */
  TAUTLINE_AGAIN = 8,    /* no error: not yet, after the wait that tautline_set_patience() names */
  TAUTLINE_IO = 9,       /* the operating system reported an error */
  TAUTLINE_MEMORY = 10,  /* there is none left */
  TAUTLINE_INTERNAL = 11 /* a mistake in Tautline: please report it */
} tautline_code;

/* The element type of memory. What the library writes is float32; updates may be any of these, and
 * become float32: float16 and bfloat16 exactly, float64 rounded to the nearest. */
typedef enum tautline_element {
  TAUTLINE_FLOAT32 = 0,
  TAUTLINE_FLOAT64 = 1,
  TAUTLINE_FLOAT16 = 2, /* IEEE 754 binary16 */
  TAUTLINE_BFLOAT16 = 3 /* the upper half of a float32 */
} tautline_element;

typedef enum tautline_kind {
  TAUTLINE_TRAINED = 0, /* updates are gradients, applied by the job's rule */
  TAUTLINE_AVERAGED = 1 /* updates are values, whose mean is taken: running statistics */
} tautline_kind;

typedef struct tautline_cluster tautline_cluster;
typedef struct tautline_member tautline_member;

/* "0.1.0" and so on. */
TAUTLINE_API const char* tautline_version(void);
/* The line of this thread's last call that failed; valid until its next call. */
TAUTLINE_API const char* tautline_error(void);
/* Frees a text that was returned. */
TAUTLINE_API void tautline_free(char* text);

/* How long a call that waits for others does so before it returns TAUTLINE_AGAIN, and is then to be
 * called again: tautline_await_place(), tautline_open(), tautline_pull(), tautline_snapshot() with
 * the same memory, tautline_leave() and tautline_finish(). For programs that must look at something
 * else now and then, as interpreters at signals. Of the process; 0, as at its start, and what is no
 * number or below 0: as long as it takes. */
TAUTLINE_API void tautline_set_patience(double wait_s);

/* ---- A cluster and its jobs ---- */

/* address  "host:port" of the coordinator, or of several, separated by commas
 * keys     the folder of the key to prove oneself with; NULL: the user's own; "": the cluster has
 *          no keys
 * wait_s   how long each request may take */
TAUTLINE_API tautline_code tautline_connect(const char* address, const char* keys, double wait_s,
                                            tautline_cluster** cluster);
TAUTLINE_API void tautline_disconnect(tautline_cluster* cluster);

/* job_text  a job as in a job's file (docs/reference/job.md) */
TAUTLINE_API tautline_code tautline_submit(tautline_cluster* cluster, const char* job_text,
                                           uint64_t* job);
/* A JSON object with every job, server and worker; of one job alone unless it is 0. To be freed. */
TAUTLINE_API tautline_code tautline_status(tautline_cluster* cluster, uint64_t job, char** json);
/* slack  in clocks; 0: BSP; below 0: no bound */
TAUTLINE_API tautline_code tautline_set_slack(tautline_cluster* cluster, uint64_t job,
                                              int64_t slack);
/* discard  other than 0: at once; otherwise a checkpoint is written first */
TAUTLINE_API tautline_code tautline_stop(tautline_cluster* cluster, uint64_t job, int discard);
/* Saves a job that trains and ends it as done; its members' calls return TAUTLINE_STOPPED then. */
TAUTLINE_API tautline_code tautline_finish_job(tautline_cluster* cluster, uint64_t job);
/* Orders a checkpoint just ahead of every member. */
TAUTLINE_API tautline_code tautline_checkpoint(tautline_cluster* cluster, uint64_t job);

/* ---- A member ---- */

typedef struct tautline_place {
  uint32_t worker; /* the member's number, never given twice */
  uint32_t slot;   /* its share of the data, one of `slots` */
  uint32_t slots;
  int64_t start; /* the first clock that it computes */
} tautline_place;

/* Begins to join a job; tautline_await_place() follows.
 * name    of this process among all of the cluster; NULL: made of the host's name and the process
 * wait_s  for the coordinator's first answer */
TAUTLINE_API tautline_code tautline_join(const char* address, const char* keys, uint64_t job,
                                         const char* name, double wait_s, tautline_member** member);
/* Waits for a place in the job. */
TAUTLINE_API tautline_code tautline_await_place(tautline_member* member, tautline_place* place);

typedef struct tautline_table_info {
  const char* name;     /* valid until tautline_close(), as the shape is */
  const int64_t* shape; /* `dimensions` extents */
  size_t dimensions;
  tautline_kind kind;
} tautline_table_info;

/* A table that the job's text names, counted from 0; after tautline_await_place().
 * TAUTLINE_NOT_FOUND: the text names no more. Where it names any, members add all of them, in any
 * order and with their shapes, and the servers make the initial values. */
TAUTLINE_API tautline_code tautline_job_table(tautline_member* member, size_t index,
                                              tautline_table_info* info);

/* The job as a JSON object, with the fields of docs/reference/job.md; after tautline_await_place().
 * To be freed. */
TAUTLINE_API tautline_code tautline_definition(tautline_member* member, char** json);

/* Adds a table; before tautline_open(), by all members in the same order, or as the job's text
 * names it.
 * values  the initial values, and from tautline_open() on the shared ones: in C order, the
 *         caller's, and not freed before tautline_close(). They are written by tautline_open(), and
 *         at any time between a push and the end of the pull that follows it. */
TAUTLINE_API tautline_code tautline_add_table(tautline_member* member, const char* name,
                                              const int64_t* shape, size_t dimensions,
                                              tautline_element element, tautline_kind kind,
                                              void* values, uint32_t* table);
/* Multiplies the job's learning rate and weight decay for a table whose updates are gradients;
 * between tautline_await_place() and tautline_open(), by all members alike. Both are 1 without it.
 * Where the job's text names the table, as that says. */
TAUTLINE_API tautline_code tautline_set_multiples(tautline_member* member, uint32_t table,
                                                  float lr_mult, float decay_mult);
/* Opens the tables and fills their values: those that the servers made or the first member brought,
 * or those of the clock at which this one joins. */
TAUTLINE_API tautline_code tautline_open(tautline_member* member);

/* Whether a table is pushed at this clock: other than 0, but where the job's periodic_averaging has
 * `fragments`, and the table's meets at another clock. */
TAUTLINE_API tautline_code tautline_is_due(tautline_member* member, uint32_t table, int* due);
/* Memory for the next update of a table, which need not be copied when it is pushed. */
TAUTLINE_API tautline_code tautline_gradient(tautline_member* member, uint32_t table,
                                             tautline_element element, void** update);
/* Pushes a table's update of this clock, and asks for the values of the next one. The update is
 * copied, unless it is tautline_gradient()'s memory, which then is the caller's no more. */
TAUTLINE_API tautline_code tautline_push(tautline_member* member, uint32_t table,
                                         tautline_element element, const void* update,
                                         uint64_t count);
/* Waits for the values of the next clock.
 * version  a clock before which they hold the updates of every member; NULL: not wanted */
TAUTLINE_API tautline_code tautline_pull(tautline_member* member, uint32_t table, int64_t* version);
/* The newest values; waits for no member. */
TAUTLINE_API tautline_code tautline_snapshot(tautline_member* member, uint32_t table,
                                             tautline_element element, void* into, uint64_t count,
                                             int64_t* version);

typedef struct tautline_report {
  double loss;    /* NaN: not known */
  uint64_t items; /* trained at this clock */
} tautline_report;

typedef struct tautline_orders {
  int64_t clock; /* that begins */
  int leave;     /* other than 0: the member is to leave now, as it is drained */
} tautline_orders;

/* Ends a clock, at which every table that is due was pushed and pulled.
 * report, orders  NULL: not wanted */
TAUTLINE_API tautline_code tautline_end_clock(tautline_member* member,
                                              const tautline_report* report,
                                              tautline_orders* orders);
/* How stale the reads were since tautline_await_place(), for as many of the bins as there is room
 * for: bin i counts the reads of i clocks, the last one also those of more. */
TAUTLINE_API tautline_code tautline_staleness(tautline_member* member, uint64_t* bins,
                                              size_t count);

/* Leaves at the end of a clock; another member may take the place. */
TAUTLINE_API tautline_code tautline_leave(tautline_member* member);
/* Leaves as finished: the job ends when its last member has. */
TAUTLINE_API tautline_code tautline_finish(tautline_member* member);
/* Leaves at once, and says why. A call of another thread that waits returns TAUTLINE_STOPPED, as
 * every later one does. TAUTLINE_STOPPED: it has left before, or the job is over. */
TAUTLINE_API tautline_code tautline_fail(tautline_member* member, const char* reason);
/* Has a call of another thread that waits return TAUTLINE_STOPPED, and every later one; says
 * nothing to the job. */
TAUTLINE_API void tautline_cancel(tautline_member* member);
/* Frees the member, after tautline_cancel() and the end of a call of another thread; none may begin
 * any more. A member that has not left is taken for lost. */
TAUTLINE_API void tautline_close(tautline_member* member);

/* ---- Memory that is lent ---- */

/* Memory of the caller's that the library uses, and neither frees nor copies, until it calls
 * `release`. A call that fails leaves it to the caller, and releases nothing.
 *
 * release  called once, before or after the call that lends the memory returns, on that call's
 *          thread, on one of the library's, or on that of tautline_close(). It must not call the
 *          library, wait, or throw. NULL: nothing is called */
typedef struct tautline_buffer {
  void* data; /* in C order, aligned to its elements */
  uint64_t count;
  tautline_element element;
  void (*release)(void* context);
  void* context;
} tautline_buffer;

/* Adds a table as tautline_add_table(), whose memory is a float32 buffer. It is released by
 * tautline_close(), or when the last tensor of tautline_values_dlpack() is deleted after that. */
TAUTLINE_API tautline_code tautline_add_buffer(tautline_member* member, const char* name,
                                               const int64_t* shape, size_t dimensions,
                                               tautline_kind kind, const tautline_buffer* values,
                                               uint32_t* table);
/* Pushes as tautline_push(), without a copy where that is possible. The buffer must not be written
 * before it is released: when the servers have acknowledged it, or before the call returns where
 * the update is sent from other memory (its type is not float32, it overlaps a table's values, the
 * job compresses it or has backups of its shards, a server of this machine shares memory). */
TAUTLINE_API tautline_code tautline_push_buffer(tautline_member* member, uint32_t table,
                                                const tautline_buffer* update);

/* The same for tensors of DLPack, version 1 of its structures, in the host's memory and C order.
 *
 * tensor     the library takes it as a consumer does: where the call succeeds its deleter is called
 *            as a buffer's release is, and where it fails the tensor stays the caller's
 * versioned  other than 0: a DLManagedTensorVersioned; otherwise a DLManagedTensor */
TAUTLINE_API tautline_code tautline_add_dlpack(tautline_member* member, const char* name,
                                               tautline_kind kind, void* tensor, int versioned,
                                               uint32_t* table);
TAUTLINE_API tautline_code tautline_push_dlpack(tautline_member* member, uint32_t table,
                                                void* tensor, int versioned);
/* A table's values as a tensor, without a copy, which the caller deletes by its deleter. Where the
 * table's memory is the caller's, it must exist for as long. */
TAUTLINE_API tautline_code tautline_values_dlpack(tautline_member* member, uint32_t table,
                                                  int versioned, void** tensor);

/* ---- Memory of a CUDA device ---- */

/* Memory of a device on which the program computes, and the stream whose work it belongs to. The
 * library queues its copies on that stream and waits for the device in tautline_open() and
 * tautline_pull() alone: what the program has queued before a push is in the update, and what it
 * queues after a pull sees the values. It needs libtautline_cuda_copies.so, which a build with CUDA
 * puts next to libtautline.so, and nothing else of CUDA but the driver.
 *
 * release  as a tautline_buffer's; of an update, when it has been copied */
typedef struct tautline_device_buffer {
  size_t size; /* of this structure, sizeof(tautline_device_buffer) */
  void* data;  /* in C order, an address of the device */
  uint64_t count;
  tautline_element element;
  int device;   /* CUDA's number of it in this process */
  void* stream; /* a cudaStream_t of that device; NULL: the legacy default stream */
  void (*release)(void* context);
  void* context;
} tautline_device_buffer;

/* Adds a table as tautline_add_buffer(), whose memory is a device's. tautline_open() and
 * tautline_pull() write it, on its stream. Its updates are a device's too. */
TAUTLINE_API tautline_code tautline_add_device_buffer(tautline_member* member, const char* name,
                                                      const int64_t* shape, size_t dimensions,
                                                      tautline_kind kind,
                                                      const tautline_device_buffer* values,
                                                      uint32_t* table);
/* Pushes an update of this clock: its copy is queued, and it leaves when that is done, in a later
 * call. What the program queues on the stream after this may overwrite the update. */
TAUTLINE_API tautline_code tautline_push_device_buffer(tautline_member* member, uint32_t table,
                                                       const tautline_device_buffer* update);
/* The same for tensors of DLPack on a CUDA device.
 * stream  a cudaStream_t, for which the tensor was exported: where its work is in order */
TAUTLINE_API tautline_code tautline_add_device_dlpack(tautline_member* member, const char* name,
                                                      tautline_kind kind, void* tensor,
                                                      int versioned, void* stream,
                                                      uint32_t* table);
TAUTLINE_API tautline_code tautline_push_device_dlpack(tautline_member* member, uint32_t table,
                                                       void* tensor, int versioned, void* stream);
/* From now on a table's values are written on another stream of its device. */
TAUTLINE_API tautline_code tautline_set_stream(tautline_member* member, uint32_t table,
                                               void* stream);

/* ---- Readers that follow ---- */

/* A reader that is no member: models of one version, whole, while the job trains. Any key may
 * follow, for the role "view" suffices; one that training waits for needs a worker's, and one that
 * passes models on a server's, since it listens. */
typedef struct tautline_follower tautline_follower;
/* The parameters as they are of one version. It is not written again. */
typedef struct tautline_model tautline_model;

typedef struct tautline_follow_options {
  size_t size;      /* of this structure, sizeof(tautline_follow_options) */
  const char* name; /* of this process, for people; NULL: made of the host's name and the process */
  int bounded;      /* other than 0: training waits for it, as the job's `followers` says */
  /* "HOST:PORT" at which it passes models on, as they arrive, to followers that do so too and have
   * come after it, and it takes them from the last that came before it: a server sends each once.
   * Port 0: any; no host: the address with which it reaches the coordinator; ":0" is both. NULL: it
   * reads from the servers. */
  const char* relay;
} tautline_follow_options;

/* Begins to follow a job; returns at once.
 * options  NULL: a plain reader
 * Errors   TAUTLINE_INVALID: it cannot listen at `relay`, or its key does not let it */
TAUTLINE_API tautline_code tautline_follow(const char* address, const char* keys, uint64_t job,
                                           const tautline_follow_options* options,
                                           tautline_follower** follower);
/* The newest model, every table of the same version: it holds every member's updates of the clocks
 * before that. A bounded follower confirms it. TAUTLINE_TIMEOUT names what was waited for;
 * TAUTLINE_STOPPED: the job is over, and its last version was given; TAUTLINE_STALE: it was
 * bounded, was silent for longer than its lease, and was cut.
 * at_least    waits for this version or a later one
 * max_behind  0 or more: what it has already will do if that is at most so many clocks behind the
 *             newest when this returns; below 0: the newest as of this call
 * wait_s      how long this may take; as long as tautline_set_patience() names at a time */
TAUTLINE_API tautline_code tautline_follow_pull(tautline_follower* follower, int64_t at_least,
                                                int64_t max_behind, double wait_s,
                                                tautline_model** model);
/* Payload bytes that have come, and that were passed on to other followers.
 * received, passed  NULL: not wanted */
TAUTLINE_API tautline_code tautline_follow_traffic(tautline_follower* follower, uint64_t* received,
                                                   uint64_t* passed);
/* Follows no more, and frees the follower; models that it gave stay. */
TAUTLINE_API void tautline_unfollow(tautline_follower* follower);

/* A clock: the model holds every member's updates before it. */
TAUTLINE_API int64_t tautline_model_version(const tautline_model* model);
/* A table of a model, counted from 0; TAUTLINE_NOT_FOUND: there are no more.
 * values  `count` float32 in C order, until tautline_model_free() */
TAUTLINE_API tautline_code tautline_model_table(const tautline_model* model, size_t index,
                                                tautline_table_info* info, const float** values,
                                                uint64_t* count);
TAUTLINE_API void tautline_model_free(tautline_model* model);

#ifdef __cplusplus
}
#endif

#endif
