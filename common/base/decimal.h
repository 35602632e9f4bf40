/* Numbers as people and programs write them in queries, headers and options: decimal digits and, for a time
 * or an amount, a fraction. strtoll and strtod also take blanks, signs, hexadecimal digits, exponents, "inf"
 * and "nan", and stop at what they do not know.
 *
 *   size_t n = mob_decimal_fraction(text, &seconds);
 *   if (n == 0 || text[n]) refuse();
 *
 * Pure. Each gives the number of characters that it read; 0, and nothing written: there is no such number.
 */
#ifndef MOB_COMMON_BASE_DECIMAL_H
#define MOB_COMMON_BASE_DECIMAL_H

#include <stddef.h>
#include <stdint.h>

/* Digits, of a number that fits. */
size_t mob_decimal_int(const char *text, int64_t *out);
/* Digits, perhaps with a point and digits behind it; at most 63 characters. */
size_t mob_decimal_fraction(const char *text, double *out);

#endif
