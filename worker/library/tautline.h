/* The C interface of Tautline: programs in any language as members of a training job.
 *
 * A program connects to a cluster, submits a job with external members or joins one, adds its
 * tables, and then, at each clock, pushes an update of every table, pulls the values of the next
 * clock, and ends the clock. The servers apply the updates by the job's rule under its staleness
 * bound.
 *
 * Functions return TAUTLINE_OK or an error code; tautline_error() then returns a one-line message
 * until this thread's next call. No exception crosses this interface. Handles are opaque. A member
 * serves one call at a time; tautline_fail(), tautline_cancel() and tautline_close() may be called
 * during one, and end it. Later versions keep the meaning of this version's functions and values.
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
  TAUTLINE_INVALID = 1,     /* invalid argument, shape, threading or job */
  TAUTLINE_NOT_FOUND = 2,   /* a job, a table or a key does not exist */
  TAUTLINE_TIMEOUT = 3,     /* no reply in time from a server or the coordinator */
  TAUTLINE_UNAVAILABLE = 4, /* the coordinator refuses, or cannot be reached */
  TAUTLINE_STALE = 5,       /* this member was declared lost; it must join again */
  TAUTLINE_MISMATCH = 6,    /* version, job or tables differ from the other side's */
  TAUTLINE_STOPPED = 7,     /* the job is over, or the member has left */
  TAUTLINE_AGAIN = 8,       /* no error: not ready within tautline_set_patience(); call again */
  TAUTLINE_IO = 9,          /* the operating system reported an error */
  TAUTLINE_MEMORY = 10,     /* out of memory */
  TAUTLINE_INTERNAL = 11    /* a bug in Tautline: please report it */
} tautline_code;

/* The element type of memory. The library writes float32. Updates may have any of these types and
 * are converted to float32: float16 and bfloat16 exactly, float64 rounded to nearest. */
typedef enum tautline_element {
  TAUTLINE_FLOAT32 = 0,
  TAUTLINE_FLOAT64 = 1,
  TAUTLINE_FLOAT16 = 2, /* IEEE 754 binary16 */
  TAUTLINE_BFLOAT16 = 3 /* the upper half of a float32 */
} tautline_element;

typedef enum tautline_kind {
  TAUTLINE_TRAINED = 0, /* updates are gradients, applied by the job's rule */
  TAUTLINE_AVERAGED = 1 /* updates are values to be averaged: running statistics */
} tautline_kind;

typedef struct tautline_cluster tautline_cluster;
typedef struct tautline_member tautline_member;

/* "0.1.0" and so on. */
TAUTLINE_API const char* tautline_version(void);
/* The error message of this thread's last failed call; valid until its next call. */
TAUTLINE_API const char* tautline_error(void);
/* Frees a text that was returned. */
TAUTLINE_API void tautline_free(char* text);

/* The longest time that a call waits for other processes before it returns TAUTLINE_AGAIN and must
 * be repeated: tautline_await_place(), tautline_open(), tautline_pull(), tautline_snapshot() with
 * the same memory, tautline_leave() and tautline_finish(). For programs that must do other work in
 * between, such as interpreters that handle signals. Process-wide; 0 (the default), negative or
 * NaN: no limit. Not among them are tautline_gradient() and the pushes, which in a job with backups
 * that lag wait for those, up to ten seconds. */
TAUTLINE_API void tautline_set_patience(double wait_s);

/* ---- A cluster and its jobs ---- */

/* address  "host:port" of the coordinator, or of several, separated by commas
 * keys     the folder of the key that authenticates this process; NULL: the user's default folder;
 *          "": the cluster has no keys
 * wait_s   how long each request may take */
TAUTLINE_API tautline_code tautline_connect(const char* address, const char* keys, double wait_s,
                                            tautline_cluster** cluster);
TAUTLINE_API void tautline_disconnect(tautline_cluster* cluster);

/* job_text  a job as in a job's file (docs/reference/job.md) */
TAUTLINE_API tautline_code tautline_submit(tautline_cluster* cluster, const char* job_text,
                                           uint64_t* job);
/* A JSON object with every job, server and worker; job 0: of all jobs, otherwise of that one only.
 * The caller frees it with tautline_free(). */
TAUTLINE_API tautline_code tautline_status(tautline_cluster* cluster, uint64_t job, char** json);
/* slack  in clocks; 0: BSP; negative: no bound */
TAUTLINE_API tautline_code tautline_set_slack(tautline_cluster* cluster, uint64_t job,
                                              int64_t slack);
/* discard  nonzero: stops at once; 0: writes a checkpoint first */
TAUTLINE_API tautline_code tautline_stop(tautline_cluster* cluster, uint64_t job, int discard);
/* Saves a training job and ends it as done; its members' calls then return TAUTLINE_STOPPED. */
TAUTLINE_API tautline_code tautline_finish_job(tautline_cluster* cluster, uint64_t job);
/* Requests a checkpoint at a clock just ahead of every member. */
TAUTLINE_API tautline_code tautline_checkpoint(tautline_cluster* cluster, uint64_t job);

/* ---- A member ---- */

typedef struct tautline_place {
  uint32_t worker; /* the member's number, never reused */
  uint32_t slot;   /* its share of the data, one of `slots` */
  uint32_t slots;
  int64_t start; /* the first clock that this member computes */
} tautline_place;

/* Starts to join a job; call tautline_await_place() next.
 * name    of this process, unique in the cluster; NULL: made from the host's name and the process
 *         number
 * wait_s  the longest wait for the coordinator's first answer */
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
 * TAUTLINE_NOT_FOUND: the index is past the last one. If the text names any, members add all of
 * them, in any order and with their shapes, and the servers make the initial values. */
TAUTLINE_API tautline_code tautline_job_table(tautline_member* member, size_t index,
                                              tautline_table_info* info);

/* The job as a JSON object, with the fields of docs/reference/job.md; after tautline_await_place().
 * The caller frees it with tautline_free(). */
TAUTLINE_API tautline_code tautline_definition(tautline_member* member, char** json);

/* Adds a table, before tautline_open(). All members add the same tables in the same order, or by
 * the names in the job's text.
 * values  the initial values, and from tautline_open() on the shared ones, in C order. The caller
 *         owns the memory and must not free it before tautline_close(). It is written by
 *         tautline_open(), and at any time between a push and the end of the pull that follows
 *         it. */
TAUTLINE_API tautline_code tautline_add_table(tautline_member* member, const char* name,
                                              const int64_t* shape, size_t dimensions,
                                              tautline_element element, tautline_kind kind,
                                              void* values, uint32_t* table);
/* Multiplies the job's learning rate and weight decay for a table whose updates are gradients;
 * call it between tautline_await_place() and tautline_open(), with the same values in all members.
 * The default of both is 1. For a table that the job's text names they must equal the text's:
 * TAUTLINE_MISMATCH. */
TAUTLINE_API tautline_code tautline_set_multiples(tautline_member* member, uint32_t table,
                                                  float lr_mult, float decay_mult);
/* Opens the tables and fills in their values: those that the servers made or the first member
 * supplied, or those of the clock at which this member joins. */
TAUTLINE_API tautline_code tautline_open(tautline_member* member);

/* Whether a table is pushed at this clock. 0 only if the job's periodic_averaging has `fragments`
 * and the table's fragment is averaged at another clock. */
TAUTLINE_API tautline_code tautline_is_due(tautline_member* member, uint32_t table, int* due);
/* Memory for the next update of a table, which is pushed without a copy. */
TAUTLINE_API tautline_code tautline_gradient(tautline_member* member, uint32_t table,
                                             tautline_element element, void** update);
/* Pushes a table's update of this clock, and requests the values of the next one. The update is
 * copied, unless it is in memory from tautline_gradient(): the caller must not use that memory
 * afterwards. */
TAUTLINE_API tautline_code tautline_push(tautline_member* member, uint32_t table,
                                         tautline_element element, const void* update,
                                         uint64_t count);
/* Waits for the values of the next clock.
 * version  the clock before which the values include the updates of every member; may be NULL */
TAUTLINE_API tautline_code tautline_pull(tautline_member* member, uint32_t table, int64_t* version);
/* Reads the newest values without waiting for other members. */
TAUTLINE_API tautline_code tautline_snapshot(tautline_member* member, uint32_t table,
                                             tautline_element element, void* into, uint64_t count,
                                             int64_t* version);

typedef struct tautline_report {
  double loss;    /* NaN: not known */
  uint64_t items; /* trained at this clock */
} tautline_report;

typedef struct tautline_orders {
  int64_t clock; /* the clock that begins */
  int leave;     /* nonzero: the member is being drained and must leave */
} tautline_orders;

/* Ends a clock, after every table that is due was pushed and pulled.
 * report, orders  may be NULL */
TAUTLINE_API tautline_code tautline_end_clock(tautline_member* member,
                                              const tautline_report* report,
                                              tautline_orders* orders);
/* Histogram of read staleness since tautline_await_place(): bin i counts the reads that were i
 * clocks stale, from 1024 on rounded down to ten binary digits; the last bin includes larger
 * values. */
TAUTLINE_API tautline_code tautline_staleness(tautline_member* member, uint64_t* bins,
                                              size_t count);

/* Leaves at the end of a clock; another member may take the place. */
TAUTLINE_API tautline_code tautline_leave(tautline_member* member);
/* Leaves as finished; the job ends when its last member has finished. */
TAUTLINE_API tautline_code tautline_finish(tautline_member* member);
/* Leaves at once and reports the reason. A blocked call of another thread and all later calls
 * return TAUTLINE_STOPPED. Returns TAUTLINE_STOPPED if the member has already left or the job is
 * over. */
TAUTLINE_API tautline_code tautline_fail(tautline_member* member, const char* reason);
/* Cancels a blocked call of another thread and all later ones: they return TAUTLINE_STOPPED. The
 * job is not notified. */
TAUTLINE_API void tautline_cancel(tautline_member* member);
/* Frees the member: cancels a blocked call of another thread and waits for its end; no call may
 * start afterwards. A member that has not left is treated as lost. */
TAUTLINE_API void tautline_close(tautline_member* member);

/* ---- Borrowed memory ---- */

/* Memory of the caller that the library uses, without freeing or copying it, until it calls
 * `release`. If the call fails, the memory stays with the caller and `release` is not called.
 *
 * release  called once, before or after the call that passes the memory returns, on that call's
 *          thread, on a thread of the library, or on the thread of tautline_close(). It must not
 *          call the library, block, or throw. May be NULL */
typedef struct tautline_buffer {
  void* data; /* in C order, aligned to its elements */
  uint64_t count;
  tautline_element element;
  void (*release)(void* context);
  void* context;
} tautline_buffer;

/* As tautline_add_table(), with a float32 buffer as the table's memory. It is released by
 * tautline_close(), or when the last tensor of tautline_values_dlpack() is deleted after that. */
TAUTLINE_API tautline_code tautline_add_buffer(tautline_member* member, const char* name,
                                               const int64_t* shape, size_t dimensions,
                                               tautline_kind kind, const tautline_buffer* values,
                                               uint32_t* table);
/* As tautline_push(), without a copy where possible. The buffer must not be written before it is
 * released. That is when the servers have acknowledged it, or before the call returns if the update
 * is sent from other memory (its type is not float32, it overlaps a table's values, the job
 * compresses it or has backups of its shards, or a server on this machine shares memory). */
TAUTLINE_API tautline_code tautline_push_buffer(tautline_member* member, uint32_t table,
                                                const tautline_buffer* update);

/* As above, for DLPack tensors (version 1 of its structures) in host memory and C order.
 *
 * tensor     the library consumes it: if the call succeeds, its deleter is called as a buffer's
 *            release is; if it fails, the tensor stays with the caller
 * versioned  nonzero: a DLManagedTensorVersioned; 0: a DLManagedTensor */
TAUTLINE_API tautline_code tautline_add_dlpack(tautline_member* member, const char* name,
                                               tautline_kind kind, void* tensor, int versioned,
                                               uint32_t* table);
TAUTLINE_API tautline_code tautline_push_dlpack(tautline_member* member, uint32_t table,
                                                void* tensor, int versioned);
/* A table's values as a tensor, without a copy; the caller calls its deleter. If the table's memory
 * is the caller's, it must outlive the tensor. */
TAUTLINE_API tautline_code tautline_values_dlpack(tautline_member* member, uint32_t table,
                                                  int versioned, void** tensor);

/* ---- Memory of a CUDA device ---- */

/* Memory of the device on which the program computes, and the stream that orders its use. The
 * library queues its copies on that stream and waits for the device only in tautline_open() and
 * tautline_pull(): the update includes work queued before the push, and work queued after the pull
 * sees the values. This needs libtautline_cuda_copies.so, which a build with CUDA installs next to
 * libtautline.so, and of CUDA itself only the driver.
 *
 * release  as in tautline_buffer; for an update, called once it has been copied */
typedef struct tautline_device_buffer {
  size_t size; /* of this structure, sizeof(tautline_device_buffer) */
  void* data;  /* a device address, in C order */
  uint64_t count;
  tautline_element element;
  int device;   /* the CUDA device number in this process */
  void* stream; /* a cudaStream_t of that device; NULL: the legacy default stream */
  void (*release)(void* context);
  void* context;
} tautline_device_buffer;

/* As tautline_add_buffer(), for memory of a device. tautline_open() and tautline_pull() write it on
 * its stream. Updates of the table are in device memory too. */
TAUTLINE_API tautline_code tautline_add_device_buffer(tautline_member* member, const char* name,
                                                      const int64_t* shape, size_t dimensions,
                                                      tautline_kind kind,
                                                      const tautline_device_buffer* values,
                                                      uint32_t* table);
/* Pushes an update of this clock: its copy is queued, and a later call sends it once the copy is
 * complete. Work that the program queues on the stream after this may overwrite the update. */
TAUTLINE_API tautline_code tautline_push_device_buffer(tautline_member* member, uint32_t table,
                                                       const tautline_device_buffer* update);
/* As above, for DLPack tensors on a CUDA device.
 * stream  the cudaStream_t for which the tensor was exported, which orders its use */
TAUTLINE_API tautline_code tautline_add_device_dlpack(tautline_member* member, const char* name,
                                                      tautline_kind kind, void* tensor,
                                                      int versioned, void* stream, uint32_t* table);
TAUTLINE_API tautline_code tautline_push_device_dlpack(tautline_member* member, uint32_t table,
                                                       void* tensor, int versioned, void* stream);
/* Writes a table's values on another stream of its device from now on. */
TAUTLINE_API tautline_code tautline_set_stream(tautline_member* member, uint32_t table,
                                               void* stream);

/* ---- Followers ---- */

/* Non-member reader of consistent model versions while the job trains. Any key may follow: the role
 * "view" suffices. A bounded follower needs a key of the role "worker"; one that relays models
 * needs the role "server", since it listens. */
typedef struct tautline_follower tautline_follower;
/* The parameters at one version; immutable. */
typedef struct tautline_model tautline_model;

typedef struct tautline_follow_options {
  size_t size;      /* of this structure, sizeof(tautline_follow_options) */
  const char* name; /* of this process, for display; NULL: made from host name and process number */
  int bounded;      /* nonzero: training waits for it, as the job's `followers` says */
  /* "HOST:PORT" at which it relays models, as they arrive, to relaying followers that joined later;
   * it receives them from the one that joined last before it, so that a server sends each model
   * once. Port 0: any free port; no host: the address with which it reaches the coordinator; ":0"
   * is both. NULL: it does not relay, and reads from the servers. */
  const char* relay;
} tautline_follow_options;

/* Starts to follow a job; returns at once.
 * options  NULL: a plain reader
 * Errors   TAUTLINE_INVALID: it cannot listen at `relay`, or its key does not let it */
TAUTLINE_API tautline_code tautline_follow(const char* address, const char* keys, uint64_t job,
                                           const tautline_follow_options* options,
                                           tautline_follower** follower);
/* The newest model, with every table at the same version: it includes every member's updates of the
 * clocks before that. A bounded follower confirms it. TAUTLINE_TIMEOUT: the message names what was
 * missing; TAUTLINE_STOPPED: the job is over, and its last version was returned before;
 * TAUTLINE_STALE: the bounded follower was silent for longer than its lease and was removed.
 * at_least    waits for this version or a later one
 * max_behind  0 or more: accepts a cached model at most this many clocks behind the newest when
 *             this returns; negative: the newest as of this call
 * wait_s      the longest time for the whole read; each call waits at most as
 *             tautline_set_patience() says */
TAUTLINE_API tautline_code tautline_follow_pull(tautline_follower* follower, int64_t at_least,
                                                int64_t max_behind, double wait_s,
                                                tautline_model** model);
/* Payload bytes received and relayed.
 * received, passed  may be NULL */
TAUTLINE_API tautline_code tautline_follow_traffic(tautline_follower* follower, uint64_t* received,
                                                   uint64_t* passed);
/* Stops following and frees the follower; models that it returned stay valid. */
TAUTLINE_API void tautline_unfollow(tautline_follower* follower);

/* The clock before which the model includes every member's updates. */
TAUTLINE_API int64_t tautline_model_version(const tautline_model* model);
/* A table of a model, counted from 0; TAUTLINE_NOT_FOUND: the index is past the last one.
 * values  `count` float32 in C order, valid until tautline_model_free() */
TAUTLINE_API tautline_code tautline_model_table(const tautline_model* model, size_t index,
                                                tautline_table_info* info, const float** values,
                                                uint64_t* count);
TAUTLINE_API void tautline_model_free(tautline_model* model);

#ifdef __cplusplus
}
#endif

#endif
