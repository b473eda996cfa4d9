/* A CUDA driver and an NCCL for tests: host memory for GPUs, a shared segment for the links between ranks.
   Built into one library that stands for both.  FAKE_HANG=RANK: that rank does not come to any collective. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define GPUS 4
#define SLOT (1 << 20)

typedef unsigned long long ptr;
static int current = -1;

int cuInit(unsigned flags) { return flags; }
int cuDeviceGetCount(int *n) { *n = GPUS; return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return index >= GPUS ? 101 : 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)(long)(device + 1); return 0; }
int cuCtxSetCurrent(void *context) { current = (int)(long)context - 1; return 0; }
int cuCtxSynchronize(void) { return 0; }
int cuStreamCreate(void **stream, unsigned flags) { *stream = (void *)8; return flags == 1 ? 0 : 1; }
int cuStreamSynchronize(void *stream) { return stream == (void *)8 ? 0 : 400; }
int cuMemAlloc_v2(ptr *memory, size_t size) { *memory = (ptr)malloc(size); return 0; }
int cuMemcpyHtoD_v2(ptr to, const void *from, size_t size) { memcpy((void *)to, from, size); return 0; }
int cuMemcpyDtoH_v2(void *to, ptr from, size_t size) { memcpy(to, (void *)from, size); return 0; }
int cuMemsetD8_v2(ptr to, unsigned char value, size_t size) { memset((void *)to, value, size); return 0; }
int cuEventCreate(void **event, unsigned flags) { *event = calloc(1, sizeof(struct timespec)); return flags; }
int cuEventRecord(void *event, void *stream) { clock_gettime(CLOCK_MONOTONIC, event); return stream ? 0 : 400; }
int cuEventSynchronize(void *event) { return event ? 0 : 400; }
int cuEventDestroy_v2(void *event) { free(event); return 0; }
int cuEventElapsedTime(float *ms, struct timespec *a, struct timespec *b) {
  *ms = (b->tv_sec - a->tv_sec) * 1e3 + (b->tv_nsec - a->tv_nsec) / 1e6;
  return 0;
}

typedef struct { char internal[128]; } unique_id;
struct shared { atomic_int ready, turn; char data[8][SLOT]; };
struct comm { int rank, count, device, turn; struct shared *shared; };
static struct { const void *send; void *receive; size_t size; int to, source; } group;

int ncclGetVersion(int *version) { *version = 22809; return 0; }
const char *ncclGetErrorString(int code) { return code == 4 ? "invalid argument" : "no error"; }
const char *ncclGetLastError(void *comm) { return comm ? "" : "the fake refuses"; }

int ncclGetUniqueId(unique_id *id) {
  memset(id, 0, sizeof *id);
  snprintf(id->internal, 100, "/nccl-fake-%d", getpid());
  id->internal[120] = (char)0xfe; /* a byte beyond the text's end must travel too */
  return 0;
}

static void wait_all(struct comm *comm) {
  comm->turn += comm->count;
  atomic_fetch_add(&comm->shared->turn, 1);
  while (atomic_load(&comm->shared->turn) < comm->turn) usleep(50);
}

int ncclCommInitRank(struct comm **out, int count, unique_id id, int rank) {
  if (id.internal[120] != (char)0xfe || strncmp(id.internal, "/nccl-fake-", 11)) return 4;
  int file = shm_open(id.internal, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, sizeof(struct shared))) return 2;
  struct comm *comm = calloc(1, sizeof *comm);
  comm->shared = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  comm->rank = rank; comm->count = count; comm->device = current;
  const char *log = getenv("NCCL_DEBUG_FILE");
  FILE *stream = log ? fopen(log, "w") : stdout;
  if (!stream) return 3;
  const char *off = getenv("NCCL_P2P_DISABLE");
  const char *via = off && *off == '1' ? "SHM/direct/direct" : "P2P/CUMEM";
  fprintf(stream, "h:1:1 [%d] NCCL INFO NCCL version 2.28.9+cuda13.0\n", current);
  fprintf(stream, "h:1:1 [%d] NCCL INFO Channel 00/0 : %d[%d] -> %d[%d] via %s\n", current, rank, rank,
          (rank + 1) % count, (rank + 1) % count, via);
  fclose(stream);
  printf("said to standard output\n");
  wait_all(comm);
  const char *hang = getenv("FAKE_HANG");
  if (hang && atoi(hang) == rank) for (;;) pause();
  if (rank == 0) shm_unlink(id.internal);
  *out = comm;
  return 0;
}
int ncclCommCuDevice(const struct comm *comm, int *device) { *device = comm->device; return 0; }
int ncclCommDestroy(struct comm *comm) { wait_all(comm); return 0; }

int ncclAllReduce(const void *send, void *receive, size_t count, int type, int op, struct comm *comm, void *stream) {
  if (op || !stream || (type != 7 && type != 2)) return 4;
  memcpy(comm->shared->data[comm->rank], send, count * 4);
  wait_all(comm);
  for (size_t i = 0; i < count; i++) {
    float sum = 0; int whole = 0;
    for (int r = 0; r < comm->count; r++) {
      sum += ((float *)comm->shared->data[r])[i];
      whole += ((int *)comm->shared->data[r])[i];
    }
    if (type == 7) ((float *)receive)[i] = sum; else ((int *)receive)[i] = whole;
  }
  wait_all(comm);
  return 0;
}
int ncclAllGather(const void *send, void *receive, size_t count, int type, struct comm *comm, void *stream) {
  if (!stream || type != 2) return 4;
  memcpy(comm->shared->data[comm->rank], send, count * 4);
  wait_all(comm);
  for (int r = 0; r < comm->count; r++) memcpy((char *)receive + r * count * 4, comm->shared->data[r], count * 4);
  wait_all(comm);
  return 0;
}
static struct comm *grouped;
int ncclGroupStart(void) { memset(&group, 0, sizeof group); return 0; }
int ncclSend(const void *send, size_t count, int type, int to, struct comm *comm, void *stream) {
  group.send = send; group.size = count * 4; group.to = to; grouped = comm;
  return type == 2 && stream ? 0 : 4;
}
int ncclRecv(void *receive, size_t count, int type, int source, struct comm *comm, void *stream) {
  group.receive = receive; group.source = source; grouped = comm;
  return type == 2 && stream && count * 4 == group.size ? 0 : 4;
}
int ncclGroupEnd(void) {
  memcpy(grouped->shared->data[group.to], group.send, group.size);
  wait_all(grouped);
  memcpy(group.receive, grouped->shared->data[grouped->rank], group.size);
  wait_all(grouped);
  return 0;
}
