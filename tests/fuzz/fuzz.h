/* SPDX-License-Identifier: MIT
 *
 * What fuzz targets share. FUZZ_CHECK works in release builds too.
 */
#ifndef EMQ_TESTS_FUZZ_H
#define EMQ_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(x)                                                             \
    do {                                                                          \
        if (!(x)) {                                                               \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #x); \
            abort();                                                              \
        }                                                                         \
    } while (0)

#endif
