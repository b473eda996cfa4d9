// Independent figures for a pair of GPUs, to hold the probe's own against: CUDA runtime API, nothing shared with it.
//
//   nvcc -O3 -std=c++17 -o p2p p2p.cu && ./p2p [FROM TO]
//
// One JSON object on standard output.  Times are medians of seven batches.  Asynchronous work is queued behind a
// kernel that spins on a host flag and timed by events, so the launch cost is excluded; staged copies (peer access
// off) block the host, so they are timed by the host's clock.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include <cuda_runtime.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t error = (call);                                                                \
        if (error != cudaSuccess) {                                                                \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error)); \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

constexpr size_t kLarge = size_t(256) << 20;
constexpr int kBatches = 7;
constexpr int kHandovers = 20000;

static int from = 0, to = 1;
static volatile int *flag;
static bool first_line = true;

__global__ void spin(volatile int *release) {
    for (long look = 0; look < 4000000 && *release == 0; ++look) {
    }
}

__global__ void copy_words(uint4 *__restrict__ out, const uint4 *__restrict__ in, size_t count) {
    size_t threads = size_t(gridDim.x) * blockDim.x;
#pragma unroll 8
    for (size_t at = size_t(blockIdx.x) * blockDim.x + threadIdx.x; at < count; at += threads) {
        out[at] = in[at];
    }
}

__global__ void hand_over(volatile int *mine, volatile int *theirs, int turns, bool begins) {
    for (int turn = 1; turn <= turns; ++turn) {
        if (begins) {
            *theirs = turn;
        }
        for (long look = 0; look < 4000000 && *mine < turn; ++look) {
        }
        if (!begins) {
            *theirs = turn;
        }
    }
}

static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

static void say(const char *name, size_t bytes, double us) {
    std::printf("%s\n  {\"name\": \"%s\", \"bytes\": %zu, \"us\": %.4f, \"gb_per_s\": %.4f}", first_line ? "" : ",", name,
                bytes, us, us > 0 ? bytes / us / 1e3 : 0.0);
    first_line = false;
}

static int batch_of(size_t bytes) { return bytes <= 65536 ? 100 : bytes <= (16u << 20) ? 20 : 5; }

// Microseconds for one work, queued behind the spinning kernel on the stream.
static double behind_spin(int device, cudaStream_t stream, int count, const std::function<void()> &work) {
    CHECK(cudaSetDevice(device));
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    for (int warm = 0; warm < 10; ++warm) {
        work();
    }
    CHECK(cudaStreamSynchronize(stream));
    std::vector<double> found;
    for (int batch = 0; batch < kBatches; ++batch) {
        *flag = 0;
        spin<<<1, 1, 0, stream>>>(flag);
        CHECK(cudaEventRecord(begin, stream));
        for (int n = 0; n < count; ++n) {
            work();
        }
        CHECK(cudaEventRecord(end, stream));
        *flag = 1;
        CHECK(cudaStreamSynchronize(stream));
        float ms = 0;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        found.push_back(ms * 1e3 / count);
    }
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    return median(found);
}

// The fastest batch: the host's clock shows two speeds by turns.
static double by_clock(cudaStream_t stream, int count, const std::function<void()> &work) {
    for (int warm = 0; warm < 10; ++warm) {
        work();
    }
    CHECK(cudaStreamSynchronize(stream));
    std::vector<double> found;
    for (int batch = 0; batch < kBatches; ++batch) {
        auto begin = std::chrono::steady_clock::now();
        for (int n = 0; n < count; ++n) {
            work();
        }
        CHECK(cudaStreamSynchronize(stream));
        found.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / count);
    }
    return *std::min_element(found.begin(), found.end());
}

static void copies(const char *name, bool staged, cudaStream_t stream, void *there, void *here) {
    for (size_t bytes : {size_t(4), size_t(12288), size_t(1) << 20, kLarge}) {
        auto work = [&] { CHECK(cudaMemcpyPeerAsync(there, to, here, from, bytes, stream)); };
        int count = batch_of(bytes);
        say(name, bytes, staged ? by_clock(stream, count, work) : behind_spin(from, stream, count, work));
    }
}

static void processors(cudaStream_t stream, void *there, void *here, int multiprocessors) {
    for (size_t bytes : {size_t(16), size_t(12288), size_t(1) << 20, kLarge}) {
        size_t units = bytes / sizeof(uint4);
        int blocks = int(std::min<size_t>((units + 511) / 512, size_t(multiprocessors) * 4));
        auto store = [&] { copy_words<<<blocks, 512, 0, stream>>>((uint4 *)there, (const uint4 *)here, units); };
        auto load = [&] { copy_words<<<blocks, 512, 0, stream>>>((uint4 *)here, (const uint4 *)there, units); };
        say("sm_store", bytes, behind_spin(from, stream, batch_of(bytes), store));
        say("sm_load", bytes, behind_spin(from, stream, batch_of(bytes), load));
    }
}

// Both directions by the copy engines; the second stream starts with and ends before the first one's events.
static void both_ways(cudaStream_t one, cudaStream_t two, void *there, void *here, void *there2, void *here2) {
    cudaEvent_t start, done;
    CHECK(cudaSetDevice(to));
    CHECK(cudaEventCreate(&done));
    CHECK(cudaSetDevice(from));
    CHECK(cudaEventCreate(&start));
    constexpr int kCopies = 5;
    auto work = [&] {
        CHECK(cudaEventRecord(start, one));
        CHECK(cudaStreamWaitEvent(two, start, 0));
        for (int n = 0; n < kCopies; ++n) {
            CHECK(cudaMemcpyPeerAsync(there, to, here, from, kLarge, one));
            CHECK(cudaMemcpyPeerAsync(here2, from, there2, to, kLarge, two));
        }
        CHECK(cudaEventRecord(done, two));
        CHECK(cudaStreamWaitEvent(one, done, 0));
    };
    say("copy_both", 2 * kLarge, behind_spin(from, one, 1, work) / kCopies);
}

static void ping_pong(cudaStream_t one, cudaStream_t two) {
    int *mine, *theirs;
    CHECK(cudaSetDevice(from));
    CHECK(cudaMalloc(&mine, 64));
    CHECK(cudaSetDevice(to));
    CHECK(cudaMalloc(&theirs, 64));
    std::vector<double> found;
    for (int batch = 0; batch < kBatches; ++batch) {
        CHECK(cudaSetDevice(to));
        CHECK(cudaMemset(theirs, 0, 64));
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaSetDevice(from));
        CHECK(cudaMemset(mine, 0, 64));
        CHECK(cudaDeviceSynchronize());
        cudaEvent_t begin, end;
        CHECK(cudaEventCreate(&begin));
        CHECK(cudaEventCreate(&end));
        CHECK(cudaSetDevice(to));
        hand_over<<<1, 1, 0, two>>>(theirs, mine, kHandovers, false);
        CHECK(cudaSetDevice(from));
        CHECK(cudaEventRecord(begin, one));
        hand_over<<<1, 1, 0, one>>>(mine, theirs, kHandovers, true);
        CHECK(cudaEventRecord(end, one));
        CHECK(cudaStreamSynchronize(one));
        float ms = 0;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        found.push_back(ms * 1e3 / kHandovers / 2);
        CHECK(cudaSetDevice(to));
        CHECK(cudaStreamSynchronize(two));
    }
    say("ping_pong_one_way", 4, median(found));
}

static void *memory_on(int device) {
    void *address = nullptr;
    CHECK(cudaSetDevice(device));
    CHECK(cudaMalloc(&address, kLarge));
    CHECK(cudaMemset(address, device + 1, kLarge));
    CHECK(cudaDeviceSynchronize());
    return address;
}

static cudaStream_t stream_on(int device) {
    cudaStream_t stream;
    CHECK(cudaSetDevice(device));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

int main(int count, char **words) {
    if (count == 3) {
        from = std::atoi(words[1]);
        to = std::atoi(words[2]);
    }
    int can = 0;
    CHECK(cudaDeviceCanAccessPeer(&can, from, to));
    CHECK(cudaSetDevice(from));
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, from));
    CHECK(cudaHostAlloc((void **)&flag, sizeof(int), cudaHostAllocPortable | cudaHostAllocMapped));
    void *here = memory_on(from), *there = memory_on(to), *here2 = memory_on(from), *there2 = memory_on(to);
    cudaStream_t one = stream_on(from), two = stream_on(to);
    std::printf("{\"from\": %d, \"to\": %d, \"gpu\": \"%s\", \"can_access\": %d, \"figures\": [", from, to, properties.name, can);
    CHECK(cudaSetDevice(from));
    copies("staged", true, one, there, here);
    if (can) {
        CHECK(cudaSetDevice(from));
        CHECK(cudaDeviceEnablePeerAccess(to, 0));
        CHECK(cudaSetDevice(to));
        CHECK(cudaDeviceEnablePeerAccess(from, 0));
        copies("copy", false, one, there, here);
        both_ways(one, two, there, here, there2, here2);
        processors(one, there, here, properties.multiProcessorCount);
        ping_pong(one, two);
    }
    std::printf("\n]}\n");
    return 0;
}
