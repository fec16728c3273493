/* fuzz.h: what a fuzz target is. tests/fuzz/fuzz_X.c defines LLVMFuzzerTestOneInput; tests/fuzz/corpus/X holds a few
 * small inputs. `make fuzz` runs every target under libFuzzer, `make check` replays every corpus (replay.c). */
#ifndef THIMBLE_FUZZ_H
#define THIMBLE_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); /* returns 0; aborts when a promise is broken */

#endif
