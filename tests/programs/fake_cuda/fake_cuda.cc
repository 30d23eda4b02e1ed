// libcuda.so.1 for tests: README.md.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "collectives/device/cuda_api.h"
#include "tests/programs/fake_cuda/capture.h"
#include "tests/programs/fake_cuda/failing.h"
#include "tests/programs/fake_cuda/trace.h"
#include "tests/unit/collectives/device/host_kernels.h"

namespace {

using fake_cuda::may_call;
using fake_cuda::trace;
using muster::collectives::device::CudaResult;
using muster::collectives::device::DeviceAddress;
using muster::collectives::device::DeviceUuid;
using muster::collectives::device::IpcMemoryHandle;
using muster::collectives::device::kCudaNotReady;
using muster::collectives::device::kCudaSuccess;

constexpr CudaResult kInvalidValue = 1;
constexpr CudaResult kOutOfMemory = 2;
constexpr CudaResult kIllegalAddress = 700;  // which all calls say once a kernel has met one
constexpr int kGreatestPriority = -5;
constexpr int kLeastPriority = 0;

long setting(const char* name, long otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtol(text, nullptr, 10);
}

void pause_for(std::chrono::microseconds time) {
  std::this_thread::sleep_for(time);  // a device is busy that long
}

// Memory that other processes can map.
struct Shared {
  int fd = -1;
  void* memory = nullptr;
  std::size_t bytes = 0;
  int ordinal = -1;  // of the device; -1: not device memory
};
bool map(Shared& shared) {
  shared.memory = mmap(nullptr, shared.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, shared.fd, 0);
  return shared.memory != MAP_FAILED;
}
struct Handle {  // what an IPC handle holds
  pid_t pid;
  int fd;
  std::size_t bytes;
  int ordinal;
};
static_assert(sizeof(Handle) <= sizeof(IpcMemoryHandle));

struct EventState {
  std::atomic<std::uint64_t> recorded;
  std::atomic<std::uint64_t> completed;
};
struct FakeEvent {
  std::shared_ptr<EventState> state = std::make_shared<EventState>();
};

void wait_for(const EventState& state, std::uint64_t value) {
  while (state.completed.load() < value) pause_for(std::chrono::microseconds(5));
}

std::atomic<int> under_way = 0;  // pieces of work on all streams of this process
std::atomic<int> held = 0;       // of these: waits for a word

// Work goes on after its stream is destroyed, as the driver's does.
class FakeStream {
 public:
  explicit FakeStream(int priority = 0) : priority_(priority), state_(std::make_shared<State>()) {
    std::thread([state = state_] { run(*state); }).detach();
  }
  ~FakeStream() {
    const std::lock_guard lock(state_->mutex);
    state_->is_over = true;
    state_->news.notify_all();
  }
  void push(std::function<void()> work) {
    ++under_way;
    const std::lock_guard lock(state_->mutex);
    state_->queue.push_back(std::move(work));
    state_->news.notify_all();
  }
  int priority() const { return priority_; }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable news;
    std::deque<std::function<void()>> queue;
    bool is_over = false;
  };
  static void run(State& state) {
    std::mt19937 random(static_cast<unsigned>(getpid()));
    const long delay = setting("FAKE_CUDA_DELAY_US", 0);
    std::unique_lock lock(state.mutex);
    while (true) {
      state.news.wait(lock, [&] { return state.is_over || !state.queue.empty(); });
      if (state.queue.empty()) return;
      const auto work = std::move(state.queue.front());
      state.queue.pop_front();
      lock.unlock();
      if (delay > 0) pause_for(std::chrono::microseconds(random() % static_cast<unsigned>(delay)));
      work();
      --under_way;
      lock.lock();
    }
  }
  const int priority_;
  std::shared_ptr<State> state_;
};

struct Driver {
  std::mutex mutex;
  std::map<DeviceAddress, Shared> memory;
  std::map<void*, std::size_t> registered;
  std::map<void*, std::size_t> pinned;
  FakeStream null_stream;
};
Driver& driver() {
  static auto* const kOne = new Driver;  // streams run until the process ends
  return *kOne;
}
FakeStream& stream_of(void* stream) {
  return stream == nullptr ? driver().null_stream : *static_cast<FakeStream*>(stream);
}
void push(void* stream, std::function<void()> work) {
  if (!fake_cuda::takes(stream)) stream_of(stream).push(std::move(work));
}
thread_local std::vector<void*> contexts;
int current_ordinal() {
  return contexts.empty() ? 0 : static_cast<int>(reinterpret_cast<std::intptr_t>(contexts.back())) - 1;
}
bool has_context() {
  return !contexts.empty();
}
bool fails(const char* function) {
  return fake_cuda::is_to_fail("FAKE_CUDA_FAIL", function, current_ordinal());
}
// By "1000", or "1000:1" on GPU 1 alone.
bool is_too_much(std::size_t bytes) {
  const char* const most = std::getenv("FAKE_CUDA_MOST");
  if (most == nullptr) return false;
  char* end = nullptr;
  const std::size_t limit = std::strtoul(most, &end, 10);
  return bytes > limit && (*end == 0 || std::strtol(end + 1, nullptr, 10) == current_ordinal());
}
constexpr CudaResult kInvalidContext = 201;
constexpr CudaResult kCaptureUnsupported = 900;

CudaResult add_memory(Shared shared, DeviceAddress* address) {
  if (!map(shared)) {
    close(shared.fd);
    return kOutOfMemory;
  }
  *address = reinterpret_cast<DeviceAddress>(shared.memory);
  const std::lock_guard lock(driver().mutex);
  driver().memory[*address] = shared;
  return kCudaSuccess;
}

CudaResult unmap(DeviceAddress address) {
  const std::lock_guard lock(driver().mutex);
  const auto found = driver().memory.find(address);
  if (found == driver().memory.end()) return kInvalidValue;
  munmap(found->second.memory, found->second.bytes);
  close(found->second.fd);
  driver().memory.erase(found);
  return kCudaSuccess;
}

// As the driver does when a function is launched first: it waits for whatever is on the device.
void load_function(const std::string& name) {
  static std::mutex mutex;
  static std::set<std::string> loaded;
  const std::lock_guard lock(mutex);
  if (!loaded.insert(name).second) return;
  while (under_way.load() != 0) pause_for(std::chrono::microseconds(5));
}

}  // namespace

#pragma GCC diagnostic ignored "-Wmissing-declarations"
extern "C" {
// Also for libnccl.so.2 beside it.
void fake_cuda_wait_for_held() {
  if (setting("FAKE_CUDA_WAITS", 0) == 0) return;
  while (held.load() != 0) pause_for(std::chrono::microseconds(5));
}
// NOLINTBEGIN(readability-identifier-naming): the driver's names

CudaResult cuInit(unsigned) {
  return fails("cuInit") ? 100 : kCudaSuccess;
}
CudaResult cuGetErrorString(CudaResult error, const char** text) {
  *text = error == kOutOfMemory ? "out of memory" : "made to fail by a test";
  return kCudaSuccess;
}
CudaResult cuDriverGetVersion(int* version) {
  *version = 13000;
  return kCudaSuccess;
}
CudaResult cuDeviceGetCount(int* count) {
  *count = static_cast<int>(setting("FAKE_CUDA_DEVICES", 1));
  return kCudaSuccess;
}
CudaResult cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return kCudaSuccess;
}
CudaResult cuDeviceGetUuid_v2(DeviceUuid* uuid, int device) {
  std::snprintf(uuid->bytes, sizeof uuid->bytes, "fake-gpu-%d", device);
  return kCudaSuccess;
}
CudaResult cuDeviceCanAccessPeer(int* can, int, int) {
  *can = setting("FAKE_CUDA_PEERS", 1) != 0;
  return kCudaSuccess;
}
CudaResult cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = reinterpret_cast<void*>(static_cast<std::intptr_t>(device) + 1);
  return kCudaSuccess;
}
CudaResult cuDevicePrimaryCtxRelease_v2(int) {
  return kCudaSuccess;
}
CudaResult cuCtxPushCurrent_v2(void* context) {
  contexts.push_back(context);
  return kCudaSuccess;
}
CudaResult cuCtxPopCurrent_v2(void** context) {
  if (contexts.empty()) return kInvalidContext;
  *context = contexts.back();
  contexts.pop_back();
  return kCudaSuccess;
}
CudaResult cuPointerGetAttribute(void* value, int attribute, DeviceAddress pointer) {
  const std::lock_guard lock(driver().mutex);
  auto found = driver().memory.upper_bound(pointer);
  if (found == driver().memory.begin()) return kInvalidValue;
  --found;
  if (pointer >= found->first + found->second.bytes) return kInvalidValue;
  const int answer = attribute == 2 ? 2 : found->second.ordinal;
  std::memcpy(value, &answer, sizeof answer);
  return kCudaSuccess;
}
CudaResult cuModuleLoadData(void** module, const void* image) {
  if (!may_call()) return kCaptureUnsupported;
  if (!has_context() || fails("cuModuleLoadData")) return kInvalidContext;
  *module = const_cast<void*>(image);
  return kCudaSuccess;
}
CudaResult cuModuleUnload(void*) {
  if (!may_call()) return kCaptureUnsupported;
  trace("cuModuleUnload");
  return kCudaSuccess;
}
CudaResult cuModuleGetFunction(void** function, void*, const char* name) {
  if (!muster::collectives::device::run_on_host(name, 0, nullptr)) return 500;
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<std::string>> names;
  const std::lock_guard lock(mutex);
  auto& kept = names[name];
  if (kept == nullptr) kept = std::make_unique<std::string>(name);
  *function = kept.get();
  return kCudaSuccess;
}
CudaResult cuMemAlloc_v2(DeviceAddress* address, std::size_t bytes) {
  if (!may_call()) return kCaptureUnsupported;
  trace("cuMemAlloc");
  if (!has_context()) return kInvalidContext;
  if (fails("context")) return kIllegalAddress;
  if (fails("cuMemAlloc_v2") || is_too_much(bytes)) return kOutOfMemory;
  const int fd = memfd_create("fake gpu", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) return kOutOfMemory;
  const CudaResult made =
      add_memory({.fd = fd, .memory = nullptr, .bytes = bytes, .ordinal = current_ordinal()}, address);
  // Not zeroed: what nobody has written is to be seen.
  if (made == kCudaSuccess) std::memset(reinterpret_cast<void*>(*address), 0xa5, bytes);
  return made;
}
CudaResult cuMemFree_v2(DeviceAddress address) {
  if (!may_call()) return kCaptureUnsupported;
  trace("cuMemFree");
  fake_cuda_wait_for_held();
  return unmap(address);
}
CudaResult cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  if (!may_call()) return kCaptureUnsupported;
  *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (*memory == MAP_FAILED) return kOutOfMemory;
  const std::lock_guard lock(driver().mutex);
  driver().pinned[*memory] = bytes;
  return kCudaSuccess;
}
// Whoever uses it from here on crashes.
CudaResult cuMemFreeHost(void* memory) {
  if (!may_call()) return kCaptureUnsupported;
  const std::lock_guard lock(driver().mutex);
  const auto found = driver().pinned.find(memory);
  if (found == driver().pinned.end()) return kInvalidValue;
  munmap(memory, found->second);
  driver().pinned.erase(found);
  return kCudaSuccess;
}
CudaResult cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned) {
  if (!may_call()) return kCaptureUnsupported;
  if (fails("cuMemHostRegister_v2")) return kInvalidValue;
  const std::lock_guard lock(driver().mutex);
  return driver().registered.emplace(memory, bytes).second ? kCudaSuccess : 712;
}
CudaResult cuMemHostUnregister(void* memory) {
  if (!may_call()) return kCaptureUnsupported;
  const std::lock_guard lock(driver().mutex);
  return driver().registered.erase(memory) == 1 ? kCudaSuccess : 713;
}
CudaResult cuMemcpyAsync(DeviceAddress to, DeviceAddress from, std::size_t bytes, void* stream) {
  trace("cuMemcpyAsync", stream);
  if (!has_context()) return kInvalidContext;
  if (fails("cuMemcpyAsync")) return kIllegalAddress;
  push(stream, [=] { std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes); });
  return kCudaSuccess;
}
CudaResult cuMemsetD8Async(DeviceAddress to, unsigned char value, std::size_t bytes, void* stream) {
  trace("cuMemsetD8Async", stream);
  if (!has_context()) return kInvalidContext;
  push(stream, [=] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
  return kCudaSuccess;
}
CudaResult cuStreamCreate(void** stream, unsigned) {
  if (!has_context()) return kInvalidContext;
  *stream = new FakeStream;
  return kCudaSuccess;
}
CudaResult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  if (!has_context()) return kInvalidContext;
  *least = kLeastPriority;
  *greatest = kGreatestPriority;
  return kCudaSuccess;
}
CudaResult cuStreamCreateWithPriority(void** stream, unsigned flags, int priority) {
  // Libmuster's never block, and have queues of their own; so have muster.torch's, which wait. Test programs' have the
  // least priority.
  const bool is_known =
      priority == kGreatestPriority || priority == kGreatestPriority + 1 || priority == kLeastPriority;
  if (flags != muster::collectives::device::kStreamNonBlocking || !is_known) return kInvalidValue;
  if (!has_context()) return kInvalidContext;
  *stream = new FakeStream(priority);
  return kCudaSuccess;
}
CudaResult cuStreamGetPriority(void* stream, int* priority) {
  *priority = stream_of(stream).priority();
  return kCudaSuccess;
}
CudaResult cuStreamDestroy_v2(void* stream) {
  if (!has_context()) return kInvalidContext;
  delete static_cast<FakeStream*>(stream);
  return kCudaSuccess;
}
CudaResult cuEventCreate(void** event, unsigned) {
  *event = new FakeEvent;
  return kCudaSuccess;
}
CudaResult cuEventDestroy_v2(void* event) {
  delete static_cast<FakeEvent*>(event);
  return kCudaSuccess;
}
CudaResult cuEventRecord(void* event, void* stream) {
  trace("cuEventRecord", stream, event);
  if (!has_context()) return kInvalidContext;
  const std::shared_ptr<EventState> state = static_cast<FakeEvent*>(event)->state;
  const std::uint64_t number = ++state->recorded;
  push(stream, [state, number] { state->completed.store(number); });
  return kCudaSuccess;
}
CudaResult cuEventQuery(void* event) {
  if (!may_call()) return kCaptureUnsupported;
  trace("cuEventQuery", nullptr, event);
  if (fails("cuEventQuery")) return kIllegalAddress;
  const EventState& state = *static_cast<FakeEvent*>(event)->state;
  return state.completed.load() >= state.recorded.load() ? kCudaSuccess : kCudaNotReady;
}
CudaResult cuStreamWaitEvent(void* stream, void* event, unsigned) {
  trace("cuStreamWaitEvent", stream, event);
  const std::shared_ptr<EventState> state = static_cast<FakeEvent*>(event)->state;
  const std::uint64_t number = state->recorded.load();
  push(stream, [state, number] { wait_for(*state, number); });
  return kCudaSuccess;
}
CudaResult cuStreamWaitValue32_v2(void* stream, DeviceAddress address, std::uint32_t value, unsigned flags) {
  if (flags != 0) return kInvalidValue;
  if (fake_cuda::takes(stream)) return kCudaSuccess;
  auto* const word = reinterpret_cast<std::atomic<std::uint32_t>*>(address);
  ++held;
  stream_of(stream).push([word, value] {
    while (static_cast<std::int32_t>(word->load() - value) < 0) pause_for(std::chrono::microseconds(5));
    --held;
  });
  // So that other threads' calls come between this one and the next.
  const long call = setting("FAKE_CUDA_CALL_US", 0);
  thread_local std::mt19937 random(static_cast<unsigned>(gettid()));
  if (call > 0) pause_for(std::chrono::microseconds(random() % static_cast<unsigned>(call)));
  return kCudaSuccess;
}
CudaResult cuStreamWriteValue32_v2(void* stream, DeviceAddress address, std::uint32_t value, unsigned) {
  auto* const word = reinterpret_cast<std::atomic<std::uint32_t>*>(address);
  push(stream, [word, value] { word->store(value); });
  return kCudaSuccess;
}
CudaResult cuIpcGetMemHandle(IpcMemoryHandle* handle, DeviceAddress address) {
  trace("cuIpcGetMemHandle");
  if (fails("cuIpcGetMemHandle")) return kInvalidValue;
  const std::lock_guard lock(driver().mutex);
  const auto found = driver().memory.find(address);
  if (found == driver().memory.end()) return kInvalidValue;
  const Handle made{getpid(), found->second.fd, found->second.bytes, found->second.ordinal};
  std::memcpy(handle, &made, sizeof made);
  return kCudaSuccess;
}
CudaResult cuIpcOpenMemHandle_v2(DeviceAddress* address, IpcMemoryHandle handle, unsigned flags) {
  if (!may_call()) return kCaptureUnsupported;
  if (!has_context() || flags != 1 || fails("cuIpcOpenMemHandle_v2")) return kInvalidContext;
  Handle given{};
  std::memcpy(&given, &handle, sizeof given);
  const std::string path = "/proc/" + std::to_string(given.pid) + "/fd/" + std::to_string(given.fd);
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return kInvalidValue;
  return add_memory({.fd = fd, .memory = nullptr, .bytes = given.bytes, .ordinal = given.ordinal}, address);
}
CudaResult cuIpcCloseMemHandle(DeviceAddress address) {
  if (!may_call()) return kCaptureUnsupported;
  trace("cuIpcCloseMemHandle");
  return unmap(address);
}
CudaResult cuLaunchKernel(void* function, unsigned grid, unsigned, unsigned, unsigned block, unsigned, unsigned,
                          unsigned, void* stream, void** parameters, void**) {
  trace("cuLaunchKernel", stream);
  using namespace muster::collectives::device;
  if (!has_context() || block != kThreads || grid == 0) return kInvalidValue;
  const std::string name = *static_cast<std::string*>(function);
  const std::size_t bytes = name.ends_with("_few")    ? sizeof(Transfer<kFewSegments>)
                            : name.ends_with("_some") ? sizeof(Transfer<kSomeSegments>)
                            : name.ends_with("_many") ? sizeof(Transfer<kManySegments>)
                                                      : sizeof(Reduction);
  auto copy = std::make_shared<std::vector<std::uint64_t>>(bytes / 8);
  std::memcpy(copy->data(), parameters[0], bytes);
  load_function(name);
  push(stream, [name, grid, copy] { (void)run_on_host(name, grid, copy->data()); });
  return kCudaSuccess;
}

// For libnccl.so.2 beside it: the device of the thread's context, and work of its own in a stream.
int fake_cuda_current() {
  return current_ordinal();
}
void fake_cuda_push(void* stream, void (*work)(void*), void* argument) {
  push(stream, [=] { work(argument); });
}

// NOLINTEND(readability-identifier-naming)
}  // extern "C"
