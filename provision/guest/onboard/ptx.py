"""The kernels, as PTX text that the driver itself translates for the GPU it finds.

``.target sm_70`` with ``.version 6.4`` is accepted by every driver from 525 on and goes forward to every later
GPU.  All accesses that check are volatile (system scope, never a cached copy).  Every loop that waits is bounded.

A pattern word is a 32-bit mix of seed and index (finalizer of MurmurHash3, public domain), one to one for a
given index, so two seeds differ in every word; :mod:`provision.guest.onboard.pattern` computes the same.
"""

from __future__ import annotations

SIGNATURES = {
    "fill": "QQQQI",
    "check": "QQQQIQ",
    "move": "QQQ",
    "gate": "QQQ",
    "pong": "QQQQIQ",
}
"""Arguments of each kernel: Q 64-bit, I 32-bit.  See the comment above each entry."""

_HEAD = ".version 6.4\n.target sm_70\n.address_size 64\n"

_GRID = """
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mov.u32 %r4, %nctaid.x;
    mad.wide.u32 %i, %r1, %r2, 0;
    cvt.u64.u32 %t, %r3;
    add.u64 %i, %i, %t;
    mul.wide.u32 %step, %r4, %r2;
"""
"""%i is the thread's first index, %step the number of threads."""

_PATTERN = """
    mad.lo.u64 %g, %i, %stride, %base;
    cvt.u32.u64 %r5, %g;
    shr.u64 %t, %g, 32;
    cvt.u32.u64 %r6, %t;
    mul.lo.u32 %r5, %r5, 0x9E3779B1;
    mul.lo.u32 %r6, %r6, 0x85EBCA77;
    xor.b32 %r5, %r5, %r6;
    xor.b32 %r5, %r5, %seed;
    shr.u32 %r6, %r5, 16;
    xor.b32 %r5, %r5, %r6;
    mul.lo.u32 %r5, %r5, 0x85EBCA6B;
    shr.u32 %r6, %r5, 13;
    xor.b32 %r5, %r5, %r6;
    mul.lo.u32 %r5, %r5, 0xC2B2AE35;
    shr.u32 %r6, %r5, 16;
    xor.b32 %r5, %r5, %r6;
"""
"""%r5 = word number %base + %i * %stride of the pattern of %seed."""

_LOOP_REGISTERS = """
    .reg .pred %p;
    .reg .b32 %r<12>;
    .reg .b32 %seed;
    .reg .b64 %i, %n, %step, %stride, %base, %memory, %result, %t, %g, %a;
"""

# fill(memory, words, stride, base, seed): memory[i * stride] = pattern(seed, base + i * stride) for i < words.
_FILL = (
    """
.visible .entry fill(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3, .param .u32 p4)
{"""
    + _LOOP_REGISTERS
    + """
    ld.param.u64 %memory, [p0];
    ld.param.u64 %n, [p1];
    ld.param.u64 %stride, [p2];
    ld.param.u64 %base, [p3];
    ld.param.u32 %seed, [p4];"""
    + _GRID
    + """
FILL_NEXT:
    setp.ge.u64 %p, %i, %n;
    @%p bra FILL_END;"""
    + _PATTERN
    + """
    mul.lo.u64 %a, %i, %stride;
    shl.b64 %a, %a, 2;
    add.u64 %a, %memory, %a;
    st.volatile.global.u32 [%a], %r5;
    add.u64 %i, %i, %step;
    bra FILL_NEXT;
FILL_END:
    membar.sys;
    ret;
}
"""
)

# check(memory, words, stride, base, seed, result): result[0] += wrong words;
# result[1] = least of (i << 32 | word found) over wrong words, for words < 2^32.  One atomic for each thread.
_CHECK = (
    """
.visible .entry check(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3, .param .u32 p4, .param .u64 p5)
{"""
    + _LOOP_REGISTERS
    + """
    .reg .b64 %wrong, %least;
    ld.param.u64 %memory, [p0];
    ld.param.u64 %n, [p1];
    ld.param.u64 %stride, [p2];
    ld.param.u64 %base, [p3];
    ld.param.u32 %seed, [p4];
    ld.param.u64 %result, [p5];
    mov.u64 %wrong, 0;
    mov.u64 %least, 0xFFFFFFFFFFFFFFFF;"""
    + _GRID
    + """
CHECK_NEXT:
    setp.ge.u64 %p, %i, %n;
    @%p bra CHECK_END;"""
    + _PATTERN
    + """
    mul.lo.u64 %a, %i, %stride;
    shl.b64 %a, %a, 2;
    add.u64 %a, %memory, %a;
    ld.volatile.global.u32 %r7, [%a];
    setp.eq.u32 %p, %r7, %r5;
    @%p bra CHECK_RIGHT;
    add.u64 %wrong, %wrong, 1;
    shl.b64 %t, %i, 32;
    cvt.u64.u32 %g, %r7;
    or.b64 %t, %t, %g;
    min.u64 %least, %least, %t;
CHECK_RIGHT:
    add.u64 %i, %i, %step;
    bra CHECK_NEXT;
CHECK_END:
    setp.eq.u64 %p, %wrong, 0;
    @%p bra CHECK_OVER;
    atom.global.add.u64 %t, [%result], %wrong;
    atom.global.min.u64 %t, [%result+8], %least;
CHECK_OVER:
    ret;
}
"""
)

# move(to, from, units): copy units of 16 bytes, four in flight for each thread.
_MOVE = (
    """
.visible .entry move(.param .u64 p0, .param .u64 p1, .param .u64 p2)
{
    .reg .pred %p;
    .reg .b32 %r<24>;
    .reg .b64 %i, %n, %step, %t, %to, %from, %a, %b, %stop, %bytes;
    ld.param.u64 %to, [p0];
    ld.param.u64 %from, [p1];
    ld.param.u64 %n, [p2];"""
    + _GRID
    + """
    shl.b64 %bytes, %step, 4;
    shl.b64 %a, %i, 4;
    add.u64 %b, %to, %a;
    add.u64 %a, %from, %a;
    mad.lo.u64 %stop, %step, 3, 0;
MOVE_FOUR:
    add.u64 %t, %i, %stop;
    setp.ge.u64 %p, %t, %n;
    @%p bra MOVE_ONE;
    ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%a];
    add.u64 %a, %a, %bytes;
    ld.global.v4.u32 {%r8, %r9, %r10, %r11}, [%a];
    add.u64 %a, %a, %bytes;
    ld.global.v4.u32 {%r12, %r13, %r14, %r15}, [%a];
    add.u64 %a, %a, %bytes;
    ld.global.v4.u32 {%r16, %r17, %r18, %r19}, [%a];
    add.u64 %a, %a, %bytes;
    st.global.v4.u32 [%b], {%r4, %r5, %r6, %r7};
    add.u64 %b, %b, %bytes;
    st.global.v4.u32 [%b], {%r8, %r9, %r10, %r11};
    add.u64 %b, %b, %bytes;
    st.global.v4.u32 [%b], {%r12, %r13, %r14, %r15};
    add.u64 %b, %b, %bytes;
    st.global.v4.u32 [%b], {%r16, %r17, %r18, %r19};
    add.u64 %b, %b, %bytes;
    add.u64 %i, %t, %step;
    bra MOVE_FOUR;
MOVE_ONE:
    setp.ge.u64 %p, %i, %n;
    @%p bra MOVE_END;
    ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%a];
    st.global.v4.u32 [%b], {%r4, %r5, %r6, %r7};
    add.u64 %a, %a, %bytes;
    add.u64 %b, %b, %bytes;
    add.u64 %i, %i, %step;
    bra MOVE_ONE;
MOVE_END:
    ret;
}
"""
)

# gate(flag, turns, result): wait until the 32-bit flag is not zero, at most turns looks;
# result[0] = 1 where it was opened, 2 where the turns ran out.
_GATE = """
.visible .entry gate(.param .u64 p0, .param .u64 p1, .param .u64 p2)
{
    .reg .pred %p;
    .reg .b32 %r1;
    .reg .b64 %flag, %n, %result, %said;
    ld.param.u64 %flag, [p0];
    ld.param.u64 %n, [p1];
    ld.param.u64 %result, [p2];
    mov.u64 %said, 1;
GATE_LOOK:
    ld.volatile.global.u32 %r1, [%flag];
    setp.ne.u32 %p, %r1, 0;
    @%p bra GATE_END;
    nanosleep.u32 200;
    sub.u64 %n, %n, 1;
    setp.ne.u64 %p, %n, 0;
    @%p bra GATE_LOOK;
    mov.u64 %said, 2;
GATE_END:
    st.volatile.global.u64 [%result], %said;
    membar.sys;
    ret;
}
"""

# pong(mine, theirs, rounds, turns, first, result): two GPUs hand a number to and fro.  Each looks at its own
# word and writes the other's.  result[0] = rounds done, result[1] = ns.  Each side has a loop of its own with one
# branch for each look: what a look takes beyond the memory's own time would count as latency.
_LOOK = """
    mov.u64 %look, 0;
NAME_LOOK:
    ld.volatile.global.u32 %r2, [%mine];
    setp.lt.u32 %p, %r2, %r3;
    add.u64 %look, %look, 1;
    setp.lt.u64 %q, %look, %turns;
    and.pred %q, %p, %q;
    @%q bra NAME_LOOK;
    @%p bra PONG_END;
"""
_NEXT = """
    mov.u32 %r4, %r3;
    add.u32 %r3, %r3, 1;
    setp.le.u32 %p, %r3, %r5;
"""
_HAND_OVER = "    st.volatile.global.u32 [%theirs], %r3;"

_PONG = f"""
.visible .entry pong(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3, .param .u32 p4, .param .u64 p5)
{{
    .reg .pred %p, %q;
    .reg .b32 %r<6>;
    .reg .b64 %mine, %theirs, %rounds, %turns, %result, %look, %begin, %end, %done;
    ld.param.u64 %mine, [p0];
    ld.param.u64 %theirs, [p1];
    ld.param.u64 %rounds, [p2];
    ld.param.u64 %turns, [p3];
    ld.param.u32 %r1, [p4];
    ld.param.u64 %result, [p5];
    cvt.u32.u64 %r5, %rounds;
    mov.u32 %r3, 1;
    mov.u32 %r4, 0;
    mov.u64 %begin, %globaltimer;
    setp.eq.u32 %p, %r1, 0;
    @%p bra SECOND_ROUND;
FIRST_ROUND:
{_HAND_OVER}{_LOOK.replace("NAME", "FIRST")}{_NEXT}
    @%p bra FIRST_ROUND;
    bra PONG_END;
SECOND_ROUND:{_LOOK.replace("NAME", "SECOND")}
{_HAND_OVER}{_NEXT}
    @%p bra SECOND_ROUND;
PONG_END:
    mov.u64 %end, %globaltimer;
    sub.u64 %end, %end, %begin;
    cvt.u64.u32 %done, %r4;
    st.volatile.global.u64 [%result], %done;
    st.volatile.global.u64 [%result+8], %end;
    membar.sys;
    ret;
}}
"""

PTX = _HEAD + _FILL + _CHECK + _MOVE + _GATE + _PONG
