/* continue.c: the smallest useful client: continues a text inside a memory budget.
 *
 *     cc continue.c $(pkg-config --cflags --libs thimble) -o continue
 *     ./continue model.gguf 512M "Once upon a time" 64
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <thimble/thimble.h>

static uint64_t parse_size(const char *text) {
    char *end;
    double n = strtod(text, &end);
    double unit = *end == 'G' ? 1024.0 * 1024 * 1024 : *end == 'M' ? 1024.0 * 1024 : *end == 'K' ? 1024.0 : 1;
    return n > 0 ? (uint64_t)(n * unit) : 0;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: %s MODEL RAM TEXT N\n", argv[0]);
        return 2;
    }
    ThimbleError error = {0};
    ThimbleModelOptions options;
    thimble_model_options_init(&options);
    options.budget = parse_size(argv[2]);
    options.context = 512;

    ThimbleModel *model = NULL;
    ThimbleSession *session = NULL;
    int32_t tokens[512];
    size_t n = 0;
    int code = thimble_model_open(&model, argv[1], &options, &error);
    if (code == THIMBLE_OK) code = thimble_tokenize(model, argv[3], strlen(argv[3]), 0, tokens, 512, &n, &error);
    if (code == THIMBLE_OK && (n == 0 || n > 512)) {
        fprintf(stderr, "the text has %zu tokens; this example takes 1 to 512\n", n);
        thimble_model_close(model);
        return 2;
    }
    if (code == THIMBLE_OK) code = thimble_session_open(&session, model, NULL, &error);
    if (code == THIMBLE_OK) code = thimble_session_sync(session, tokens, n, &error);

    ThimbleSampler sampler;
    thimble_sampler_init(&sampler);
    sampler.temperature = 0; /* the most likely token each time */
    ThimbleDetok detok = {0};
    char text[4096] = "";
    for (int i = 0; code == THIMBLE_OK && i < atoi(argv[4]); i++) {
        int32_t token;
        code = thimble_sample(session, &sampler, &token, &error);
        if (code != THIMBLE_OK || thimble_token_is_eog(model, token)) break;
        fwrite(text, 1, thimble_detok_push(model, &detok, token, text, sizeof text), stdout);
        fflush(stdout);
        code = thimble_session_eval(session, &token, 1, &error);
    }
    fwrite(text, 1, thimble_detok_end(&detok, text, sizeof text), stdout);
    putchar('\n');
    if (code != THIMBLE_OK) fprintf(stderr, "error: %s\n", error.message);

    thimble_session_close(session); /* NULL is fine */
    thimble_model_close(model);
    return code == THIMBLE_OK ? 0 : 1;
}
