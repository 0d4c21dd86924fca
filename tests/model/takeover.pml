/* The take-over of a slice by its backup (section 8 of the design), for `spin` to search
 * exhaustively: two workers, one slice, clocks 0 to CLOCKS - 1, one bound SLACK for the whole run.
 * Host 0 is the primary in term 1. Host 1 is its backup, and the primary of term 2, without a
 * backup. At any time host 0 may end, and at any time, whether it has ended or not, the coordinator
 * may begin term 2; host 1 and each worker learn of that one by one, in any order. What is on its
 * way on a connection that is closed is lost, or arrives late at a host 0 that lives on.
 *   to a host    PUSH_READ(clock): the update of `clock`, and the read at the clock after it;
 *                PUSH(clock); READ(clock); OPEN(kept, sent): hello and opening in one
 *   to a worker  VALUE(clock, of 0, of 1, stable): the answer to a read, with the updates of each
 *                worker that it holds, a bit for each clock; ACK(done, 0, 0, stable);
 *                SETTLED(CLOCKS, 0, 0, stable)
 *   to host 1    an image: V, done of each worker, the updates of each in the values
 * Requests are repeated at a change of the term only, so no run is endless: where none ends in a
 * deadlock, every worker finishes.
 *
 * Each of these names, if defined, plants a mistake that the search must find: NO_GATE,
 * GATE_AT_HELLO, GATE_BY_ACKNOWLEDGED, KEPT_UNTIL_ACKNOWLEDGED, STABLE_WHEN_SENT,
 * IMAGE_COUNTS_HELD (with SLACK 0), VERSION_OF_APPLICATIONS, CLOCKS_OF_HELLOS, OLD_ANSWERS,
 * SENDS_TO_OLD, OLD_IMAGES.
 *
 *   spin -a -DSLACK=1 takeover.pml && gcc -O2 -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan
 */
#ifndef SLACK
#define SLACK 1
#endif
#ifndef CLOCKS
#define CLOCKS 3
#endif

mtype = { OPEN, PUSH, PUSH_READ, READ, VALUE, ACK, SETTLED };

/* A line in each direction between each worker and host: index host * 2 + worker. */
chan up[4] = [CLOCKS + 2] of { mtype, byte, byte };
chan down[4] = [CLOCKS + 3] of { mtype, byte, byte, byte, byte };
chan image = [1] of { byte, byte, byte, byte, byte };
chan kept = [1] of { byte, byte };  /* the backup's reply: done of each worker in the image */

/* By worker. */
byte pushed[2];    /* how many updates it has made */
bool moved[2];     /* it has said hello in term 2 */
bool settles[2];   /* it has read everything, and waits until all its updates are stable */
bool finished[2];  /* they are, and the coordinator and host 1 know */
byte shown[2];     /* of its updates, those that any worker has read in term 1 */

/* A slice at a host; at host 1 the newest image until it takes over. */
byte version[2];   /* by host: V */
byte done[4];      /* by host and worker: the next clock that is expected */
byte applied[4];   /* by host and worker: the updates in the values, a bit for each clock */
byte waiting[4];   /* in BSP: those that wait for others of their clock */
byte parked[4];    /* the clock of the parked read; 0: none, as clock 0 is not read here */
bool told[4];      /* the worker was told that all its updates are stable */

/* Of host 0. */
bool alive = true;
bool under_way;    /* an image is */
byte stable[2];    /* by worker: the first update that the backup has not acknowledged */

/* Of host 1. */
bool taken;        /* it has taken the slice over */
bool heard[2];     /* by worker: its hello has arrived */
byte due[2];       /* by worker: it has sent every clock below this; 0 once they are here */

#define PLACE(h, w) ((h) * 2 + (w))
/* All clocks below c. */
#define BELOW(c) ((1 << (c)) - 1)
#define LOWER(a, b) ((a) < (b) -> (a) : (b))
#define LACKS(held, of) (((of) & (held)) != (of))
/* The first update that is not in the values. In BSP they hold whole clocks. */
#define SETTLED_AT(h, w) (SLACK == 0 -> version[h] : done[PLACE(h, w)])
/* Without a backup, stable is what is applied. */
#define STABLE_AT(h, w) ((h) == 0 -> stable[w] : SETTLED_AT(h, w))
#define RUNS(h) ((h) == 0 -> alive : taken)

#ifdef IMAGE_COUNTS_HELD
#define IN_IMAGE(w) done[PLACE(0, w)]
#else
#define IN_IMAGE(w) SETTLED_AT(0, w)
#endif
/* V has risen since the last image, or a worker waits for one. */
#ifdef IMAGES_AT_ANY_TIME
#define AWAITS_IMAGE(w) (stable[w] < SETTLED_AT(0, w))
#else
#define AWAITS_IMAGE(w) (settles[w] && stable[w] < SETTLED_AT(0, w))
#endif
#define IS_IMAGE_DUE \
  (version[0] > LOWER(stable[0], stable[1]) || AWAITS_IMAGE(0) || AWAITS_IMAGE(1))

/* The gate of host 1: each member has said hello, and has repeated what it had sent. */
#ifdef GATE_AT_HELLO
#define HAS_REPEATED(w) (finished[w] || heard[w])
#else
#define HAS_REPEATED(w) (finished[w] || (heard[w] && due[w] == 0))
#endif
#ifdef NO_GATE
#define IS_OPEN true
#else
#define IS_OPEN (HAS_REPEATED(0) && HAS_REPEATED(1))
#endif
/* The contract's one condition, and the gate. */
#define MAY_READ(h, w, c) \
  (version[h] + SLACK >= (c) && done[PLACE(h, w)] >= (c) && ((h) == 0 || IS_OPEN))
#define IS_ANSWERABLE(h, w) (parked[PLACE(h, w)] > 0 && MAY_READ(h, w, parked[PLACE(h, w)]))
#define OWES_SETTLED(h, w) (settles[w] && STABLE_AT(h, w) == CLOCKS && !told[PLACE(h, w)])

/* Whether a worker's connection to a host is open. */
#ifdef OLD_ANSWERS
#define HEARS(h, w) (!finished[w])
#else
#define HEARS(h, w) (!finished[w] && ((h) == 1 || !moved[w]))
#endif
#ifdef SENDS_TO_OLD
#define SENDS_TO_FIRST(w) alive
#else
#define SENDS_TO_FIRST(w) (alive && !moved[w])
#endif
/* What a worker says that it has sent, and what it still keeps. */
#ifdef GATE_BY_ACKNOWLEDGED
#define SENT acknowledged
#else
#define SENT clock
#endif
#ifdef KEPT_UNTIL_ACKNOWLEDGED
#define FIRST_KEPT (acknowledged > keeps -> acknowledged : keeps)
#else
#define FIRST_KEPT keeps
#endif
/* What a worker does otherwise depends on nothing but what is stable: fewer states. */
#if defined(GATE_BY_ACKNOWLEDGED) || defined(KEPT_UNTIL_ACKNOWLEDGED)
#define NEEDS_ACKNOWLEDGED true
#else
#define NEEDS_ACKNOWLEDGED false
#endif

inline apply(h, w, updates) {
  /* Each update once. */
  assert(!(applied[PLACE(h, w)] & (updates)));
  applied[PLACE(h, w)] = applied[PLACE(h, w)] | (updates)
}

/* In BSP: whatever is here of the clock V. */
inline aggregate(h, w) {
  apply(h, w, waiting[PLACE(h, w)] & (1 << version[h]));
  waiting[PLACE(h, w)] = waiting[PLACE(h, w)] & ~(1 << version[h])
}

inline accept(h, w, c) {
  /* A worker pushes in order; what it leaves out it has no more. */
  assert(c <= done[PLACE(h, w)]);
  if
  :: c == done[PLACE(h, w)] ->
     done[PLACE(h, w)]++;
     if
     :: SLACK == 0 -> waiting[PLACE(h, w)] = waiting[PLACE(h, w)] | (1 << c)
     :: else -> apply(h, w, 1 << c)
     fi;
     do
     :: version[h] < LOWER(done[PLACE(h, 0)], done[PLACE(h, 1)]) ->
        if
        :: SLACK == 0 -> aggregate(h, 0); aggregate(h, 1)
        :: else -> skip
        fi;
        version[h]++
     :: else -> break
     od
  :: else -> skip  /* accepted before: acknowledged again, and dropped */
  fi
}

inline reply(h, w, kind, clock, of_0, of_1) {
  if
  :: HEARS(h, w) -> down[PLACE(h, w)] ! kind, clock, of_0, of_1, STABLE_AT(h, w)
  :: else -> skip
  fi
}

inline answer(h, w) {
  /* What any worker has seen before the take-over is not missing in the first answer after it. */
  if
  :: h == 1 ->
     assert(!LACKS(applied[PLACE(1, 0)], shown[0]) && !LACKS(applied[PLACE(1, 1)], shown[1]));
     shown[0] = 0;
     shown[1] = 0
  :: else -> skip
  fi;
  reply(h, w, VALUE, parked[PLACE(h, w)], applied[PLACE(h, 0)], applied[PLACE(h, 1)]);
  parked[PLACE(h, w)] = 0
}

inline release(h, w) {
  if
  :: IS_ANSWERABLE(h, w) -> answer(h, w)
  :: else -> skip
  fi
}

inline serve(h, w) {
  up[PLACE(h, w)] ? kind, c, sent;
  if
  :: kind == OPEN ->
     heard[w] = true;
     due[w] = sent;
#ifdef CLOCKS_OF_HELLOS
     done[PLACE(h, w)] = c;
     version[h] = LOWER(done[PLACE(h, 0)], done[PLACE(h, 1)])
#endif
  :: kind == READ -> parked[PLACE(h, w)] = c
  :: else ->
     accept(h, w, c);
     if
     :: kind == PUSH_READ -> parked[PLACE(h, w)] = c + 1
     :: else -> skip
     fi;
     if
     :: kind == PUSH_READ && IS_ANSWERABLE(h, w) -> answer(h, w)
     :: else -> reply(h, w, ACK, done[PLACE(h, w)], 0, 0)
     fi
  fi;
  if
  :: h == 1 && done[PLACE(1, w)] >= due[w] -> due[w] = 0  /* all of it has been repeated */
  :: else -> skip
  fi;
  release(h, 0);
  release(h, 1);
  kind = 0;
  c = 0;
  sent = 0
}

inline settle(h, w) {
  told[PLACE(h, w)] = true;
  reply(h, w, SETTLED, CLOCKS, 0, 0)
}

/* What was on its way to host 0 is lost. What it had makes no difference from now on. */
inline end_primary() {
  alive = false;
  under_way = false;
  version[0] = 0;
  clear(0);
  clear(1);
  do
  :: nempty(kept) -> kept ? _, _
  :: empty(kept) -> break
  od;
  skip
}

inline clear(w) {
  do
  :: nempty(up[PLACE(0, w)]) -> up[PLACE(0, w)] ? _, _, _
  :: empty(up[PLACE(0, w)]) -> break
  od;
  stable[w] = 0;
  done[PLACE(0, w)] = 0;
  applied[PLACE(0, w)] = 0;
  waiting[PLACE(0, w)] = 0;
  parked[PLACE(0, w)] = 0;
  told[PLACE(0, w)] = false
}

/* What host 0 does where no worker and no backup hears it any more makes no difference either. */
inline end_if_left() {
  if
  :: alive && taken && (moved[0] || finished[0]) && (moved[1] || finished[1]) -> end_primary()
  :: else -> skip
  fi
}

/* Host 0. */
proctype Primary() {
  mtype kind;
  byte c;
  byte sent;
end:
  do
  :: d_step { RUNS(0) && nempty(up[PLACE(0, 0)]) -> serve(0, 0) }
  :: d_step { RUNS(0) && nempty(up[PLACE(0, 1)]) -> serve(0, 1) }
  :: d_step { RUNS(0) && OWES_SETTLED(0, 0) -> settle(0, 0) }
  :: d_step { RUNS(0) && OWES_SETTLED(0, 1) -> settle(0, 1) }
  :: d_step {
       RUNS(0) && !under_way && IS_IMAGE_DUE ->
       under_way = true;
       image ! version[0], IN_IMAGE(0), IN_IMAGE(1), applied[PLACE(0, 0)], applied[PLACE(0, 1)];
#ifdef STABLE_WHEN_SENT
       stable[0] = IN_IMAGE(0);
       stable[1] = IN_IMAGE(1)
#endif
     }
  :: d_step { RUNS(0) && nempty(kept) -> kept ? stable[0], stable[1]; under_way = false }
  :: d_step { alive -> end_primary() }
  od
}

/* Host 1. */
proctype Backup() {
  mtype kind;
  byte c;
  byte sent;
end:
  do
  :: d_step {
       !taken && nempty(image) ->
       image ? version[1], done[PLACE(1, 0)], done[PLACE(1, 1)], applied[PLACE(1, 0)],
               applied[PLACE(1, 1)];
       if
       :: alive -> kept ! done[PLACE(1, 0)], done[PLACE(1, 1)]
       :: else -> skip
       fi
     }
  :: d_step {
       /* Of an older term. */
       taken && nempty(image) ->
       image ? _, c, sent, _, _;
#ifdef OLD_IMAGES
       if
       :: alive -> kept ! c, sent
       :: else -> skip
       fi;
#endif
       c = 0;
       sent = 0
     }
  :: d_step {
       !taken && !(finished[0] && finished[1]) ->
       taken = true;
       end_if_left();
#ifdef VERSION_OF_APPLICATIONS
       version[1] = (done[PLACE(1, 0)] + done[PLACE(1, 1)]) / 2;
#endif
     }
  :: d_step { RUNS(1) && nempty(up[PLACE(1, 0)]) -> serve(1, 0) }
  :: d_step { RUNS(1) && nempty(up[PLACE(1, 1)]) -> serve(1, 1) }
  :: d_step { RUNS(1) && IS_ANSWERABLE(1, 0) -> answer(1, 0) }
  :: d_step { RUNS(1) && IS_ANSWERABLE(1, 1) -> answer(1, 1) }
  :: d_step { RUNS(1) && OWES_SETTLED(1, 0) -> settle(1, 0) }
  :: d_step { RUNS(1) && OWES_SETTLED(1, 1) -> settle(1, 1) }
  od
}

inline check(own, others) {
  /* Own updates, all and no others; of the other's, all up to clock - SLACK - 1. */
  assert(own == BELOW(clock));
  assert(clock <= SLACK || !LACKS(others, BELOW(clock - SLACK)));
  assert(!LACKS(BELOW(pushed[1 - w]), others));
  /* In BSP each worker reads the same bits. */
  assert(SLACK > 0 || others == BELOW(clock));
  /* What was seen once is not missing later. */
  assert(!LACKS(others, seen))
}

inline take(h) {
  down[PLACE(h, w)] ? kind, c, held[0], held[1], safe;
  if
  :: safe > keeps -> keeps = safe
  :: else -> skip
  fi;
  if
  :: NEEDS_ACKNOWLEDGED && c > acknowledged -> acknowledged = c
  :: else -> skip
  fi;
  /* What is acknowledged need not be repeated. */
  if
  :: next < c -> next = c
  :: else -> skip
  fi;
  if
  :: kind == VALUE && reading && c == clock ->
     check(held[w], held[1 - w]);
     reading = false;
     read_due = false;
     settles[w] = clock == CLOCKS;
     seen = held[1 - w];
     if
     :: !moved[w] -> shown[0] = shown[0] | held[0]; shown[1] = shown[1] | held[1]
     :: else -> skip
     fi
  :: else -> skip
  fi;
  kind = 0;
  c = 0;
  held[0] = 0;
  held[1] = 0;
  safe = 0
}

inline hang_up(h) {
  do
  :: nempty(down[PLACE(h, w)]) -> down[PLACE(h, w)] ? _, _, _, _, _
  :: empty(down[PLACE(h, w)]) -> break
  od
}

proctype Worker(byte w) {
  byte clock;         /* how many updates it has made */
  bool reading;       /* it waits for the values of its clock */
  byte keeps;         /* the first update that it keeps: those before it are stable */
  byte acknowledged;
  byte next;          /* the next update that it sends to the host */
  bool read_due;      /* the read is to be sent to the host once more */
  byte seen;          /* the other worker's updates in its newest value */
  mtype kind;
  byte c;
  byte held[2];
  byte safe;
  do
  :: d_step {
       !reading && clock < CLOCKS && next == clock ->
       if
       :: moved[w] -> up[PLACE(1, w)] ! PUSH_READ, clock, 0
       :: else -> skip
       fi;
       if
       :: SENDS_TO_FIRST(w) -> up[PLACE(0, w)] ! PUSH_READ, clock, 0
       :: else -> skip
       fi;
       clock++;
       pushed[w] = clock;
       next = clock;
       reading = true
     }
  :: d_step { !moved[w] && nempty(down[PLACE(0, w)]) -> take(0) }
  :: d_step { moved[w] && nempty(down[PLACE(1, w)]) -> take(1) }
#ifdef OLD_ANSWERS
  :: d_step { moved[w] && nempty(down[PLACE(0, w)]) -> take(0) }
#endif
  /* It learns of the new term. */
  :: d_step {
       !moved[w] ->
       moved[w] = true;
       next = FIRST_KEPT;
       read_due = reading;
       up[PLACE(1, w)] ! OPEN, next, SENT;
#ifndef OLD_ANSWERS
       hang_up(0);
#endif
       end_if_left()
     }
  :: d_step {
       moved[w] && next < clock ->
       if
       :: next + 1 == clock && read_due ->
          up[PLACE(1, w)] ! PUSH_READ, next, 0;
          read_due = false
       :: else -> up[PLACE(1, w)] ! PUSH, next, 0
       fi;
       next++
     }
  :: d_step {
       moved[w] && next == clock && read_due ->
       up[PLACE(1, w)] ! READ, clock, 0;
       read_due = false
     }
  :: atomic {
       settles[w] && keeps == CLOCKS ->
       d_step {
         keeps = 0;
         clock = 0;
         next = 0;
         seen = 0;
         settles[w] = false;
         finished[w] = true;
         hang_up(0);
         hang_up(1);
         end_if_left()
       };
       break
     }
  od
}

init {
  atomic {
    run Primary();
    run Backup();
    run Worker(0);
    run Worker(1)
  };
  finished[0] && finished[1] ->
  /* Each update is in the values once: at the new primary, or in its image. */
  assert(applied[PLACE(1, 0)] == BELOW(CLOCKS));
  assert(applied[PLACE(1, 1)] == BELOW(CLOCKS))
}
