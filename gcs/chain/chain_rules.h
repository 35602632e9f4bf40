/* The safety rules, each by a name, so that a build for the simulator can leave one out and show that it is
 * needed (ctest sim/without-*: a machine that no seed catches fails the test). In every other build all hold.
 * Without RESEND nothing unsafe happens: the sequence check refuses what follows a gap, and the chain stands
 * still.
 */
#ifndef MOB_GCS_CHAIN_CHAIN_RULES_H
#define MOB_GCS_CHAIN_CHAIN_RULES_H

#define MOB_RULE_DEDUP 1 /* a request that is in the tables is answered from there, not applied again */
#define MOB_RULE_EPOCH 2 /* messages of another epoch, or of one who is no neighbour in it, are refused */
#define MOB_RULE_LEASE 3 /* a tail without a lease does not answer from its own state */
#define MOB_RULE_SYNCEND 4 /* nothing is served before the predecessor has sent the rest */
#define MOB_RULE_RESEND 5 /* a predecessor sends again what its successor lacks */
#define MOB_RULE_SEQUENCE 6 /* an update is taken only right behind the one before */
#define MOB_RULE_STREAM_TAIL 7 /* only a tail serves subscribers */
#define MOB_RULE_STREAM_HISTORY 8 /* after a restart they are told which of their positions are void */
#define MOB_RULE_STREAM_HOLE 9 /* they are told when what they lack was flushed */
#define MOB_RULE_FLUSH_FROM 10 /* a FLUSH that knew another position changes nothing */

#define MOB_RULE_VERSION 19 /* a write's version is no other's, also when it was lost with everything */
#define MOB_RULE_START_DISK 18 /* a start after everything died answers nobody before it is on its disk */

/* Without these nothing unsafe happens, but what waits for a link that carries nothing waits for ever. */
#define MOB_RULE_STALLED 14 /* a member that gets no further on its way to serving is left out */
#define MOB_RULE_JOIN_STALLED 15 /* a joiner that hears nothing of its snapshot gives up */
#define MOB_RULE_LOG_STALLED 16 /* so does one that has it, and hears nothing of the log behind it */

/* Bugs that there were, to be put back: the simulator finds each again (ctest sim/bug-*), or a unit test
 * fails (unit/gcs/chain/bug-*). */
#define MOB_RULE_HISTORY_HOLE 17 /* after a restart positions are the same up to the first hole only */
#define MOB_RULE_JOIN_PART 20 /* who took part in an epoch does not obey a JOIN of that or an earlier one */
#define MOB_RULE_JOIN_LOG \
    21 /* the log for a joiner is kept until it serves, not only until it is appended \
        */
#define MOB_RULE_EVICT_DISK 22 /* one that stays has its synced state on its disk */
#define MOB_RULE_START_FIRST 23 /* members of a first or started configuration had everything */
#define MOB_RULE_PROVISIONAL 24 /* a log whose registration is not there yet is collected all the same */
#define MOB_RULE_DROP_AGAIN 25 /* a drop that was answered takes as many blocks as it took then */

/* Of gcs/chain/node_watch.c (ctest sim/nodes-without-*). */
#define MOB_RULE_NODE_SEAL 11 /* the next incarnation is given out when the log before is sealed */
#define MOB_RULE_NODE_TOLD 12 /* a chain that starts again is told what was sealed */
#define MOB_RULE_NODE_SETTLED 13 /* but not while a record is under way */

#ifndef MOB_RULE_LEFT_OUT
#define MOB_RULE_LEFT_OUT 0
#endif
#define MOB_RULE(name) (MOB_RULE_LEFT_OUT != MOB_RULE_##name)

#endif
