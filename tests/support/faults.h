/* Faults of tests/chaos/gcs_faults_test.c: of masters and their database (faults_masters.c), of the machine
 * and of what a member holds (faults_machine.c). Each is what happens between stage_open and stage_close. */
#ifndef MOB_TESTS_SUPPORT_FAULTS_H
#define MOB_TESTS_SUPPORT_FAULTS_H

#include "tests/support/fault_stage.h"

void fault_master_after_insert(struct stage *s);
void fault_two_masters(struct stage *s);
void fault_master_inserts_late(struct stage *s);
void fault_postgres_is_away(struct stage *s);
void fault_postgres_down_tail_dies(struct stage *s);
void fault_four_busy_loops(struct stage *s);
void fault_large_tail_dies(struct stage *s);

#endif
