/* The clock protocol of section 2 of the design, for `spin` to search exhaustively: two workers,
 * two slices on separate shards, clocks 0 to CLOCKS - 1, one bound SLACK for the whole run, and at
 * most one lost message. A message is one item about one slice, as on the wire:
 *   to a shard   PUSH_READ(clock): the update of `clock`, and the read at clock + 1 that follows it
 *   to a worker  VALUE(clock, other): the answer to the read at `clock`, and how many of the other
 *                worker's updates it holds; ACK(clock): accepted, the read is parked
 * A lost message is sent once more, slice by slice, when nothing else moves; in addition, each
 * worker may resend an unanswered message too early, up to REPEATS times, so that it arrives twice.
 * Any other standstill is a deadlock.
 *
 *   spin -a -DSLACK=1 clock_protocol.pml && gcc -O2 -o pan pan.c && ./pan
 */
#ifndef SLACK
#define SLACK 1
#endif
#ifndef CLOCKS
#define CLOCKS 4
#endif
/* How often each worker may repeat a request for no reason: each makes the search much longer. */
#ifndef REPEATS
#define REPEATS 0
#endif
#define WORKERS 2
#define SLICES 2

mtype = { PUSH_READ, VALUE, ACK };

/* A line in each direction between each worker and shard: index worker * SLICES + slice. */
chan to_shard[4] = [3] of { mtype, byte };
chan to_worker[4] = [4] of { mtype, byte, byte };

bool lossy = true;   /* one message may still be lost */
bool mended[4];      /* by worker and slice: was sent once more since */
byte pushed[2];      /* by worker: how many clocks it has pushed */
byte seen[4];        /* by worker and slice: updates of the other worker in its newest value */
byte accepted[4];    /* by worker and slice: done(w) at the slice's shard */

#define PLACE(w, s) ((w) * SLICES + (s))
#define V(s) (accepted[PLACE(0, s)] < accepted[PLACE(1, s)] -> \
              accepted[PLACE(0, s)] : accepted[PLACE(1, s)])
/* The contract's one condition. */
#define MAY_READ(w, s, c) (V(s) + SLACK >= (c) && accepted[PLACE(w, s)] >= (c))
/* What BSP has applied of the other worker: whole clocks. Otherwise all that was accepted. */
#define HELD_OF(w, s) (SLACK == 0 -> V(s) : accepted[PLACE(1 - (w), s)])
#define OWN_HELD(w, s) (SLACK == 0 -> V(s) : accepted[PLACE(w, s)])

inline answer(w, s, c) {
  /* Own updates up to c - 1; of the other's, all up to c - s - 1. */
  assert(OWN_HELD(w, s) >= c);
  assert(HELD_OF(w, s) + SLACK >= c);
  if
  :: to_worker[PLACE(w, s)] ! VALUE, c, HELD_OF(w, s)
  :: lossy -> lossy = false
  fi
}

/* Takes one message, changes, and says what follows: a state machine's step. */
inline serve(w, s) {
  atomic {
    to_shard[PLACE(w, s)] ? PUSH_READ, c ->
    if
    :: c == accepted[PLACE(w, s)] -> accepted[PLACE(w, s)]++
    :: c < accepted[PLACE(w, s)] -> skip  /* accepted before: acknowledged again, and dropped */
    :: else -> assert(false)              /* a worker pushes in order, and waits between */
    fi;
    assert(accepted[PLACE(w, s)] <= CLOCKS);
    c++;
    if
    :: MAY_READ(w, s, c) ->
       if
       :: parked[w] <= c -> parked[w] = 0
       :: else -> skip
       fi;
       answer(w, s, c)
    :: else ->
       parked[w] = c;
       if
       :: to_worker[PLACE(w, s)] ! ACK, c, 0
       :: lossy -> lossy = false
       fi
    fi;
    /* A rise of V releases the other's read. */
    if
    :: parked[1 - w] > 0 && MAY_READ(1 - w, s, parked[1 - w]) ->
       c = parked[1 - w];
       parked[1 - w] = 0;
       answer(1 - w, s, c)
    :: else -> skip
    fi;
    c = 0
  }
}

proctype Shard(byte s) {
  byte parked[2];  /* by worker: the clock of its parked read; 0: none, as clock 0 needs no push */
  byte c;
end:
  do
  :: nempty(to_shard[PLACE(0, s)]) -> serve(0, s)
  :: nempty(to_shard[PLACE(1, s)]) -> serve(1, s)
  od
}

inline take(s) {
  atomic {
    if
    :: to_worker[PLACE(w, s)] ? ACK, c, other -> skip
    :: to_worker[PLACE(w, s)] ? VALUE, c, other ->
       if
       :: c == clock + 1 && !has[s] ->
          has[s] = true;
          /* The bound, at the worker: its clock is now c. */
          assert(other + SLACK >= c);
          assert(other <= pushed[1 - w]);
          /* What was seen once is not missing later. */
          assert(other >= seen[PLACE(w, s)]);
          seen[PLACE(w, s)] = other
       :: else -> skip  /* a late answer to a read that is over */
       fi
    fi;
    c = 0;
    other = 0
  }
}

proctype Worker(byte w) {
  byte clock;
  byte c;
  byte other;
  byte slice;
  bool has[2];  /* by slice: the answer to this clock's read has come */
  byte repeats;
  do
  :: clock == CLOCKS -> break
  :: clock < CLOCKS ->
     atomic {
       pushed[w] = clock + 1;
       has[0] = false;
       has[1] = false;
       for (slice : 0 .. SLICES - 1) {
         if
         :: to_shard[PLACE(w, slice)] ! PUSH_READ, clock
         :: lossy -> lossy = false
         fi
       };
       slice = 0
     };
     do
     :: has[0] && has[1] -> break
     :: nempty(to_worker[PLACE(w, 0)]) -> take(0)
     :: nempty(to_worker[PLACE(w, 1)]) -> take(1)
     :: repeats < REPEATS && !has[0] -> repeats++; to_shard[PLACE(w, 0)] ! PUSH_READ, clock
     :: repeats < REPEATS && !has[1] -> repeats++; to_shard[PLACE(w, 1)] ! PUSH_READ, clock
     :: timeout && !lossy && !mended[PLACE(w, 0)] && !has[0] ->
        mended[PLACE(w, 0)] = true;
        to_shard[PLACE(w, 0)] ! PUSH_READ, clock
     :: timeout && !lossy && !mended[PLACE(w, 1)] && !has[1] ->
        mended[PLACE(w, 1)] = true;
        to_shard[PLACE(w, 1)] ! PUSH_READ, clock
     od;
     clock++
  od;
  /* It is done; late answers are still taken off the line. */
end:
  do
  :: to_worker[PLACE(w, 0)] ? _, _, _
  :: to_worker[PLACE(w, 1)] ? _, _, _
  od
}

init {
  atomic {
    run Shard(0);
    run Shard(1);
    run Worker(0);
    run Worker(1)
  }
}
