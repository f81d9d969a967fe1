// In the place of NVRTC: a function of the tests (compiler.py) compiles; what it gives back stands for machine code.
#include <stdlib.h>
#include <string.h>

typedef struct {
    char *source, *output, *log;
} Program;

// Compiles; sets *text to the path of a library (0) or to the messages of the compiler (1).
typedef int (*Compile)(const char* source, int count, const char** options, const char** text);
static Compile compile;
void gpu_set_compiler(Compile function) { compile = function; }

enum { OK = 0, COMPILATION_FAILED = 6, NO_SUCH_NAME = 10 };

const char* nvrtcGetErrorString(int error) { return error == COMPILATION_FAILED ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR"; }
int nvrtcVersion(int* major, int* minor) { return *major = 12, *minor = 9, OK; }
int nvrtcGetNumSupportedArchs(int* count) { return *count = 1, OK; }
int nvrtcGetSupportedArchs(int* archs) { return archs[0] = 80, OK; }

int nvrtcCreateProgram(Program** result, const char* source, const char* name, int n, const char** headers,
                       const char** names) {
    *result = calloc(1, sizeof **result);
    (*result)->source = strdup(source);
    (*result)->output = strdup("");
    (*result)->log = strdup("");
    return OK;
}

int nvrtcCompileProgram(Program* program, int count, const char** options) {
    const char* text;
    int failed = compile(program->source, count, options, &text);
    char** place = failed ? &program->log : &program->output;
    free(*place);
    *place = strdup(text);
    return failed ? COMPILATION_FAILED : OK;
}

int nvrtcDestroyProgram(Program** program) {
    free((*program)->source), free((*program)->output), free((*program)->log), free(*program);
    *program = NULL;
    return OK;
}

int nvrtcGetPTXSize(Program* p, size_t* size) { return *size = strlen(p->output) + 1, OK; }
int nvrtcGetPTX(Program* p, char* text) { return strcpy(text, p->output), OK; }
int nvrtcGetCUBINSize(Program* p, size_t* size) { return *size = strlen(p->output) + 1, OK; }
int nvrtcGetCUBIN(Program* p, char* text) { return strcpy(text, p->output), OK; }
int nvrtcGetProgramLogSize(Program* p, size_t* size) { return *size = strlen(p->log) + 1, OK; }
int nvrtcGetProgramLog(Program* p, char* text) { return strcpy(text, p->log), OK; }
int nvrtcAddNameExpression(Program* p, const char* name) { return NO_SUCH_NAME; }
