/*
 * ring.pml - the ring protocol of docs/design.md, section 3, small enough to be searched completely.
 *
 * Several producer threads of one process and the consumer (the collector) share a ring of WORDS words. A record is
 *
 *     [mark] [pos] [id and stamp]                            3 words (MS_RECORD_ALIGN each), or
 *     [mark] [pos] [id and stamp] [decoy mark] [decoy pos]   5 words
 *
 * The decoy is user data that looks exactly like a READY record at its own position: the worst text that a target can
 * send. Whoever takes it for a record fails an assertion.
 *
 * Each producer allocates from an allocator that owns one single address. What every run must satisfy:
 *   P1  a published record is consumed once, whole, and nothing else is ever consumed: take(), and the end of consumer;
 *   P2  records of the one address come in causal order, ALLOC FREE ALLOC FREE ...: the monitor in take();
 *   P3  safe time: the consumer reads its clock T, then tail; no record at or above that tail has a stamp <= T. Only
 *       "before or after T" matters, so a stamp is one bit, and T is taken once in a run, at any turn. And behind the
 *       second record of a thread none has an older stamp than its first. And the stamps of the one address ascend, so that
 *       sorting by (stamp, place) keeps the causal order;
 *   P4  nobody hangs: no invalid end state, although a futex wait has no timeout here;
 *   P5  it ends: no cycle of steps (check.sh searches for non-progress cycles; no state is marked as progress).
 *
 * Scenarios: (none) the process ends when its threads have; SAFE_TIME: the same with P3; KILL: the process dies at any
 * instruction; THREAD_DEATH: one thread dies at any instruction and the process ends when the others have;
 * COLLECTOR_DEATH: the consumer dies at any instruction. FAILING_FREE: the real free of producer 0 may fail.
 * ONE_EACH: no allocator, every producer sends one record; for more of them. FIXED_LENGTHS: no choice of lengths.
 *
 * MUTANT_*: the protocol with one of its rules broken; check.sh demands that each of them is found out.
 *
 * Spin interleaves sequentially consistent steps. What the code must add to make that true of hardware: the stores of
 * mark and head are releases and their loads acquires; between `waiters` += 1 and the re-check of `head`, and between
 * the store of `head` and the load of `waiters`, stands a full barrier; the clock is read neither before the
 * compare-and-swap (producer) nor after the load of tail (consumer).
 *
 * Steps that nobody else can tell apart are put into one atomic step, which keeps the search small: what a process does
 * with its own variables, and accesses to bytes of a record that no other process looks at in that state.
 */
#ifndef PRODUCERS
#define PRODUCERS 2
#endif
#ifndef WORDS
#define WORDS 8
#endif

#define BUSY 1
#define READY 2
#define MARK 0
#define ALLOC 1
#define FREE 2
#define UNDO 3

/* A mark word: state, length in words, type, producer, sequence number among the producer's records. */
#define mark_of(state, words, type, who, seq) (((state) << 12) | ((words) << 8) | ((type) << 6) | ((who) << 4) | (seq))
#define state_of(m) (((m) >> 12) & 3)
#define words_of(m) (((m) >> 8) & 15)
#define type_of(m)  (((m) >> 6) & 3)
#define who_of(m)   (((m) >> 4) & 3)
#define seq_of(m)   ((m) & 15)
#define id_of(m)    ((m) & 255)
#define DECOY       mark_of(READY, 3, MARK, 3, 15)

short ring[WORDS];
#define W(p) ring[(p) % WORDS]

byte tail, head, space, waiters;
bit closed;             /* no more records are taken; producers pass through */
bit dead;               /* the process is gone */
bit cdead;              /* the collector is gone */
byte lost = 255;        /* this producer is gone */
byte finished;          /* producers that have come to their end, gone ones included */
bit asleep[PRODUCERS];  /* in FUTEX_WAIT */

/* The allocator, and what the observer knows. */
bit taken;                 /* the one address is handed out */
bit live;                  /* ... and what the consumer makes of it */
byte published[PRODUCERS]; /* READY stored, counted in the same step */
byte consumed[PRODUCERS];
bit sampled, snapped;      /* T was read; tail was read with it */
byte snap;
bit stamped[PRODUCERS];    /* the stamp of the thread's last record */
bit block_stamped;         /* the stamp of the last record of the one address */
bit late;                  /* a thread's record follows on one that was stamped after T */

/* ------------------------------------------------------------------------------------------------- producer */

/* Reserves `words` words at `at`; passed = 1 when the event is to be passed through instead. */
inline reserve() {
    do
    :: atomic { closed -> passed = 1; break }
    :: atomic { !closed -> at = tail };
        h = head;
        if
        :: atomic { at + words - h <= WORDS && tail == at -> tail = at + words; h = 0; break } /* compare-and-swap */
        :: atomic { at + words - h <= WORDS && tail != at -> at = 0; h = 0 }
        :: atomic { at + words - h > WORDS -> waiters++ };
            sleep_for_space()
        fi
    od
}

inline sleep_for_space() {
#ifdef MUTANT_VALUE_AFTER_RECHECK
    at = tail;
    h = head;
    v = space;
#else
    v = space;
#ifndef MUTANT_NO_RECHECK
    at = tail;
    h = head;
#endif
#endif
    atomic {
        if
        :: closed || at + words - h <= WORDS
        :: else ->
            if /* FUTEX_WAIT compares and sleeps in one step */
            :: space == v -> asleep[me] = 1
            :: else
            fi
        fi;
        at = 0;
        h = 0;
        v = 0
    };
    if
    :: atomic { !asleep[me] -> waiters-- }
#ifndef MUTANT_NO_TIMEOUT
    :: atomic { asleep[me] && cdead -> asleep[me] = 0; closed = 1; waiters-- } /* no heartbeat, connection refused */
#endif
    fi
}

inline fill() {
    d_step {
        W(at + 2) = id_of(mark_of(0, 0, type, me, seq)) * 2 + stamp;
        if
        :: words == 5 -> W(at + 3) = DECOY; W(at + 4) = at + 3
        :: else
        fi
    }
}

inline publish() {
    d_step { W(at) = mark_of(READY, words, type, me, seq); published[me]++ }
}

inline emit(t) {
    atomic {
        type = t;
        if
#ifdef FIXED_LENGTHS
        :: words = 3 + (me + t) % 2 * 2
#else
        :: words = 3
        :: words = 5
#endif
        fi
    };
#ifdef MUTANT_CLOCK_BEFORE_RESERVE
    stamp = sampled;
#endif
    reserve();
    if
    :: atomic { passed -> passed = 0 }
    :: atomic { !passed -> seq++ };
#ifdef MUTANT_PAYLOAD_BEFORE_MARK
        fill();
#endif
        W(at + 1) = at;
        W(at) = mark_of(BUSY, words, type, me, seq);
#ifdef MUTANT_READY_EARLY
        publish();
#endif
#ifndef MUTANT_CLOCK_BEFORE_RESERVE
        stamp = sampled;
#endif
#ifndef MUTANT_PAYLOAD_BEFORE_MARK
        fill();
#endif
#ifndef MUTANT_READY_EARLY
        publish()
#endif
    fi;
    atomic { at = 0; words = 0; type = 0; stamp = 0 }
}

inline real_alloc() {
    atomic { /* it gives the one address, or another one that nobody watches */
        if
        :: !taken -> taken = 1; mine = 1
        :: taken
        fi
    }
}

proctype producer(byte me) {
    byte at, h, v, words, type, seq;
    bit stamp, passed, mine;
    {
#if defined(ONE_EACH)
        emit(MARK);
#elif defined(MUTANT_ALLOC_BEFORE_CALL)
        if
        :: !taken -> emit(ALLOC); real_alloc()
        :: taken -> emit(MARK)
        fi;
#else
        real_alloc();
        if
        :: mine -> emit(ALLOC)
        :: else -> emit(MARK)
        fi;
#endif
#ifdef MUTANT_FREE_AFTER_CALL
        if
        :: mine -> taken = 0; emit(FREE)
        :: else
        fi
#else
        if
        :: mine -> emit(FREE);
            if
            :: taken = 0
#ifdef FAILING_FREE
            :: me == 0 -> emit(UNDO) /* the block lives on */
#endif
            fi
        :: else
        fi
#endif
    } unless {
        dead || lost == me
    };
    atomic { at = 0; h = 0; v = 0; words = 0; type = 0; seq = 0; stamp = 0; passed = 0; mine = 0; finished++ }
}

/* ------------------------------------------------------------------------------------------------- consumer */

#ifdef MUTANT_HEAD_BEFORE_ZERO
#define STEP
#else
#define STEP atomic
#endif

/* Clears n words at head and frees them. */
inline drop(n) {
#ifdef MUTANT_HEAD_BEFORE_ZERO
    last = n;
    head = head + last;
    d_step { head = head - last; clear(); head = head + last; last = 0 };
#else
    last = n;
#ifndef MUTANT_NO_ZERO
    clear();
#endif
    head = head + last;
    last = 0;
#endif
    owed = 1
}

inline clear() {
    i = 0;
    do
    :: i < last -> W(head + i) = 0; i++
    :: else -> break
    od;
    i = 0
}

/* Uses the record at head, whose mark is m. */
inline take() {
    d_step {
        assert(W(head + 1) == head);                                /* P1: in its place */
        assert(who_of(m) < PRODUCERS);                              /* P1: not the decoy */
        assert(seq_of(m) == consumed[who_of(m)] + 1);               /* P1: none doubled, none left out */
        assert(seq_of(m) <= published[who_of(m)]);                  /* P1: not before it was published */
        assert(W(head + 2) / 2 == id_of(m));                        /* P1: whole */
        assert(words_of(m) == 3 || W(head + 3) == DECOY && W(head + 4) == head + 3);
        assert(!(snapped && head >= snap && W(head + 2) % 2 == 0)); /* P3 */
        assert(!(late && W(head + 2) % 2 == 0));                    /* P3 */
#ifdef MUTANT_OWN_STAMP
        late = late || W(head + 2) % 2;
#else
        late = late || stamped[who_of(m)];
#endif
        stamped[who_of(m)] = W(head + 2) % 2;
        if
        :: type_of(m) == MARK
        :: else -> assert(W(head + 2) % 2 >= block_stamped);        /* P3 */
            block_stamped = W(head + 2) % 2
        fi;
        if
        :: type_of(m) == ALLOC -> assert(!live); live = 1           /* P2 */
        :: type_of(m) == FREE -> assert(live); live = 0
        :: type_of(m) == UNDO -> assert(!live); live = 1
        :: else
        fi;
        consumed[who_of(m)]++
    };
    drop(words_of(m));
    m = 0
}

/* The process is gone and left a place without a mark: on, word by word, to something that is whole or to the end. */
inline scan() {
    do
    :: drop(1);
        if
        :: head == limit || state_of(W(head)) != 0 && W(head + 1) == head -> break
        :: else
        fi
    od
}

inline wake() {
    d_step {
        i = 0;
        do
        :: i < PRODUCERS -> asleep[i] = 0; i++
        :: else -> break
        od;
        i = 0
    }
}

inline batch() {
    do
    :: head == limit -> break
    :: STEP { head < limit && state_of(W(head)) == READY -> m = W(head); take() }
    :: STEP { head < limit && W(head) == 0 && gone -> scan() }
    :: head < limit && W(head) == 0 && !gone -> break
#ifdef MUTANT_SCAN_BUSY
    :: STEP { head < limit && state_of(W(head)) == BUSY && gone -> scan() }
#else
    :: STEP { head < limit && state_of(W(head)) == BUSY && gone -> drop(words_of(W(head))) }
#endif
    :: atomic { head < limit && state_of(W(head)) == BUSY && !gone -> m = W(head) };
        if
        :: atomic { who_of(m) != lost -> m = 0; break }
        :: who_of(m) == lost ->
            STEP {
#ifndef MUTANT_NO_REREAD
                m = W(head); /* it may have published, and then ended, after we looked */
#endif
                if
                :: state_of(m) == READY -> take()
                :: else -> drop(words_of(m)); m = 0
                fi
            }
        fi
    od
}

/* It polls. A turn that would find nothing is left out, so that a hang is a hang. */
inline poll() {
    if
    :: gone || dead
    :: head < tail && state_of(W(head)) == READY
    :: head < tail && state_of(W(head)) == BUSY && who_of(W(head)) == lost
    :: !closed && lost != 255 && head < tail && W(head) == 0 && timeout -> /* 30 s without any movement */
        closed = 1;
        wake()
    fi
}

proctype consumer() {
    byte limit, i, last;
    short m;
    bit gone, owed; /* owed: space was given back since the last wake */
    {
        do
        ::
#ifndef MUTANT_DEATH_AFTER_TAIL
            gone = dead;
#endif
#ifdef SAFE_TIME
            if
            :: !sampled ->
#ifdef MUTANT_TAIL_BEFORE_CLOCK
                snap = tail;
                sampled = 1;
#else
                sampled = 1;
                snap = tail;
#endif
                snapped = 1
            :: true
            fi;
#endif
            limit = tail;
#ifdef MUTANT_DEATH_AFTER_TAIL
            gone = dead;
#endif
            batch();
            if
            :: owed && waiters != 0 -> /* a wake for every few bytes would cost more than it brings */
                if
                :: atomic { tail - head <= WORDS / 2 || state_of(W(head)) != READY -> owed = 0 };
#ifndef MUTANT_NO_BUMP
                    space++;
#endif
                    wake()
                :: else
                fi
            :: else
            fi;
            if
            :: gone && head == limit -> break
            :: else -> limit = 0
            fi;
            poll()
        od;
        atomic {
            i = 0;
            do
            :: i < PRODUCERS -> assert(consumed[i] == published[i]); i++ /* P1 */
            :: else -> break
            od
        }
    } unless {
        cdead
    }
}

/* ------------------------------------------------------------------------------------------------- fate */

init {
    byte i;
    atomic {
        run consumer();
        do
        :: i < PRODUCERS -> run producer(i); i++
        :: else -> break
        od
    };
#if defined(KILL)
    dead = 1
#elif defined(COLLECTOR_DEATH)
    cdead = 1
#else
#ifdef THREAD_DEATH
    lost = 0;
#endif
    finished == PRODUCERS;
    dead = 1
#endif
}
