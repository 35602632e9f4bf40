/* JSON text that a library has written with all 17 digits of each f64: 0.1 as 0.10000000000000001. Pure.
 */
#ifndef MOB_COMMON_WIRE_JSON_REALS_H
#define MOB_COMMON_WIRE_JSON_REALS_H

/* Numbers with a fraction or an exponent get as few digits as stand for the same f64. In place: the text does
 * not become longer. Of text that is not JSON nothing but such numbers changes. */
void mob_json_shorten_reals(char *json);

#endif
