// What libmuster's design leans on, asked of the driver itself: driver_doubts [QUESTION]
//
//   dead_event   does a wait for the event of a process that has died ever end; what do cuMemFree and exit do
//   meanwhile? held_copy, held_free, held_launch
//                a stream waits for a word of the host's (cuStreamWaitValue32). One thread reads behind it into memory
//                that is not pinned, frees other memory, or launches a kernel for the first time: what can another
//                thread do?
//   store        how soon does a stream that waits so see the host's store?
//   queues       which other streams does it keep waiting?
//   switches     what does a short operation cost while another process uses the GPU, or has a stream that waits so?
//   dead_memory  do copies out of the memory of a process that is killed meanwhile end well?
//
// Each in a process of its own, with time limits. One line of JSON an answer; whatever it is, exit 0. 1: a question
// could not be asked; 77: no driver. With the driver that is none it shows that the questions can be asked, and nothing
// else.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <future>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/device/kernel_arguments.h"
#include "collectives/device/kernels.h"
#include "collectives/device/library.h"
#include "tests/gpu/gpu_rank.h"
#include "tests/gpu/no_driver.h"

namespace {

namespace device = muster::collectives::device;
using device::address_of;
using gpu_ranks::Machine;
using gpu_ranks::must;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr milliseconds kLimit{3000};                         // for one call
constexpr int kQuestionLimit = 30'000, kExitLimit = 10'000;  // ms

const char* question = "";
int leaving = -1;  // closed when a question has been answered and its process is to end

double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}
void answer(const std::string& what, const std::string& said) {
  std::printf("{\"op\":\"driver_doubt\",\"question\":\"%s\",\"what\":\"%s\",\"answer\":\"%s\"}\n", question,
              what.c_str(), said.c_str());
}
std::string in_us(double us) {
  return fmt::format("{:.1f} us", us);
}

// A call that may not return, on a thread of its own that is left there then.
template <class Work>
std::shared_future<double> begin(Work work) {
  std::packaged_task<double()> task([work] {
    const auto start = Clock::now();
    work();
    return us_since(start);
  });
  const std::shared_future<double> done = task.get_future().share();
  std::thread(std::move(task)).detach();
  return done;
}
bool is_done(const std::shared_future<double>& call, milliseconds limit) {
  return call.wait_for(limit) == std::future_status::ready;
}
std::string said(const std::shared_future<double>& call) {
  return is_done(call, kLimit) ? in_us(call.get()) : fmt::format("not back after {} ms", kLimit.count());
}

Machine open() {
  const std::shared_ptr<const device::Gpu> gpu = must(device::Gpu::open(must(device::CudaApi::load()), 0));
  return {gpu, must(device::make_stream(gpu, device::Priority::kLeast)), must(device::make_event(gpu))};
}
Machine beside(const Machine& machine) {
  return {machine.gpu, must(device::make_stream(machine.gpu, device::Priority::kLeast)),
          must(device::make_event(machine.gpu))};
}
void set(const Machine& machine, const device::DeviceMemory& memory, std::size_t bytes) {
  must(machine.gpu->call("cuMemsetD8Async", machine.gpu->api().set_async, memory.get(), static_cast<unsigned char>(1),
                         bytes, machine.stream.get()));
}

// A word of the host's that streams wait for.
struct Word {
  device::HostMemory memory;
  explicit Word(const Machine& machine) : memory(must(device::allocate_pinned(machine.gpu, 4096))) { store(0); }
  void store(std::uint32_t value) const {
    std::atomic_ref<std::uint32_t>(*static_cast<std::uint32_t*>(memory.get())).store(value);
  }
  void hold(const Machine& machine, std::uint32_t value) const {
    must(machine.gpu->call("cuStreamWaitValue32", machine.gpu->api().stream_wait_value, machine.stream.get(),
                           address_of(memory.get()), value, device::kWaitValueAtLeast));
  }
};

// ---- processes beside this one ----

// This program with two arguments; the second one, a descriptor that it writes to, is closed by whoever ends.
struct Child {
  pid_t pid = -1;
  int from = -1;
};
Child start(const char* what) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) std::exit(1);
  (void)fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  std::string fd = std::to_string(ends[1]);
  const Child child{fork(), ends[0]};
  if (child.pid == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    execl("/proc/self/exe", "driver_doubts", what, fd.c_str(), nullptr);
    _exit(1);
  }
  close(ends[1]);
  return child;
}
bool is_readable(int fd, int limit) {
  pollfd one{fd, POLLIN, 0};
  return poll(&one, 1, limit) == 1;
}
void end(const Child& child) {
  (void)kill(child.pid, SIGKILL);
  (void)waitpid(child.pid, nullptr, 0);
}

// Events of other processes, which libmuster does not use: docs/adr/0029 leans on what is asked here.
struct EventHandle {
  char reserved[64];
};
struct SharedEvents {
  device::CudaResult (*get)(EventHandle* handle, void* event) = nullptr;
  device::CudaResult (*open)(void** event, EventHandle handle) = nullptr;
  bool find() {
    const device::Library driver = must(device::Library::open("libcuda.so.1"));
    return driver.find("cuIpcGetEventHandle", get).ok() && driver.find("cuIpcOpenEventHandle", open).ok();
  }
};
constexpr unsigned kSharedEvent = 2 | 4;  // CU_EVENT_DISABLE_TIMING, CU_EVENT_INTERPROCESS

// Records an event of a stream that never goes on, and is killed.
[[noreturn]] void be_victim(int fd) {
  const Machine machine = open();
  const Word word(machine);
  void* event = nullptr;
  must(machine.gpu->call("cuEventCreate", machine.gpu->api().event_create, &event, kSharedEvent));
  word.hold(machine, 1);
  must(machine.gpu->call("cuEventRecord", machine.gpu->api().event_record, event, machine.stream.get()));
  EventHandle handle{};
  SharedEvents shared;
  if (!shared.find()) std::exit(1);
  must(machine.gpu->call("cuIpcGetEventHandle", shared.get, &handle, event));
  (void)!write(fd, &handle, sizeof handle);
  while (true) pause();
}
// Has a stream that waits, until it is killed.
[[noreturn]] void be_held(int fd) {
  const Machine machine = open();
  const Word word(machine);
  word.hold(machine, 1);
  (void)!write(fd, "1", 1);
  while (true) pause();
}
// Lets others read its memory until it is killed.
constexpr std::size_t kExported = 256 * kMiB;
[[noreturn]] void be_exporter(int fd) {
  const Machine machine = open();
  const device::DeviceMemory memory = must(device::allocate(machine.gpu, kExported));
  set(machine, memory, kExported);
  machine.wait();
  device::IpcMemoryHandle handle{};
  must(machine.gpu->call("cuIpcGetMemHandle", machine.gpu->api().ipc_get_memory_handle, &handle, memory.get()));
  (void)!write(fd, &handle, sizeof handle);
  while (true) pause();
}
// Uses the GPU until it is killed.
[[noreturn]] void be_busy(int fd, std::size_t bytes) {
  const Machine machine = open();
  const device::DeviceMemory memory = must(device::allocate(machine.gpu, bytes));
  for (bool is_first = true;; is_first = false) {
    for (int i = 0; i < 4; ++i) set(machine, memory, bytes);
    machine.wait();
    if (is_first) (void)!write(fd, "1", 1);
  }
}

// ---- questions ----

bool ask_dead_event() {
  SharedEvents shared;
  if (!shared.find()) {
    answer("the wait for a dead process's event", "this driver has no such events");
    close(leaving);
    return true;
  }
  const Child victim = start("victim");
  const Machine machine = open();
  EventHandle handle{};
  if (!is_readable(victim.from, 20'000) || read(victim.from, &handle, sizeof handle) != sizeof handle) return false;
  void* event = nullptr;
  must(machine.gpu->call("cuIpcOpenEventHandle", shared.open, &event, handle));
  must(machine.gpu->call("cuStreamWaitEvent", machine.gpu->api().stream_wait_event, machine.stream.get(), event, 0U));
  must(machine.gpu->call("cuEventRecord", machine.gpu->api().event_record, machine.event.get(), machine.stream.get()));
  end(victim);
  const device::Gpu::Current current(*machine.gpu);
  const auto start = Clock::now();
  device::CudaResult result = device::kCudaNotReady;
  while (result == device::kCudaNotReady && us_since(start) < 5e6) {
    result = machine.gpu->api().event_query(machine.event.get());
    std::this_thread::yield();
  }
  answer("the wait for a dead process's event", result == device::kCudaNotReady ? "does not end in 5 s"
                                                : result == device::kCudaSuccess
                                                    ? "ends after " + in_us(us_since(start))
                                                    : fmt::format("CUDA error {}", result));
  device::DeviceAddress address = 0;
  const auto& api = machine.gpu->api();
  const auto allocated = begin([&] { must(machine.gpu->call("cuMemAlloc", api.memory_allocate, &address, kMiB)); });
  answer("cuMemAlloc meanwhile", said(allocated));
  if (!is_done(allocated, kLimit)) _exit(0);
  const auto copied = begin([&] {
    const Machine other = beside(machine);
    must(machine.gpu->call("cuMemsetD8Async", api.set_async, address, static_cast<unsigned char>(1), kMiB,
                           other.stream.get()));
    other.wait();
  });
  answer("work in another stream meanwhile", said(copied));
  const auto freed = begin([&] { must(machine.gpu->call("cuMemFree", api.memory_free, address)); });
  answer("cuMemFree meanwhile", said(freed));
  close(leaving);
  std::exit(0);  // without giving back what the driver may wait for
}

enum class First { kCopy, kFree, kLaunch };

// A kernel that nothing has launched: Kernels has launched all those of its own module as it was loaded.
struct NewKernel {
  device::Owned<void*> module;
  void* function = nullptr;

  explicit NewKernel(const Machine& machine) {
    const auto& api = machine.gpu->api();
    void* loaded = nullptr;
    const auto* const code = static_cast<const void*>(device::Kernels::image().data());
    must(machine.gpu->call("cuModuleLoadData", api.module_load_data, &loaded, code));
    module = device::Owned<void*>(machine.gpu, loaded, api.module_unload);
    must(machine.gpu->call("cuModuleGetFunction", api.module_get_function, &function, loaded,
                           "muster_transfer_float64_float64_few"));
  }
  // With nothing to do.
  void launch(const Machine& machine) const {
    device::Transfer<device::kFewSegments> table{};
    table.count = 1;
    void* parameters[] = {&table};
    void** const none = nullptr;
    must(machine.gpu->call("cuLaunchKernel", machine.gpu->api().launch_kernel, function, 1U, 1U, 1U, device::kThreads,
                           1U, 1U, 0U, machine.stream.get(), static_cast<void**>(parameters), none));
  }
};

bool ask_held(First first) {
  constexpr std::size_t kBytes = 32 * kMiB;
  const Machine machine = open();
  const Machine other = beside(machine);
  const Machine third = beside(machine);
  const device::DeviceMemory memory = must(device::allocate(machine.gpu, kBytes));
  device::DeviceMemory spare = must(device::allocate(machine.gpu, kBytes));
  std::vector<char> pageable(kBytes);
  std::unique_ptr<device::Kernels> kernels;
  std::optional<NewKernel> unlaunched;
  const std::vector<device::Move> moves{{memory.get(), memory.get() + kMiB, 1000}};
  using muster::collectives::DType;
  if (!device::Kernels::image().empty()) {
    kernels = must(device::Kernels::load(machine.gpu));
    unlaunched.emplace(machine);
    must(kernels->transfer(other.stream.get(), moves, DType::kF32, DType::kF32));
  }
  if (first == First::kLaunch && kernels == nullptr) return answer("kernels", "none were built"), true;
  set(other, memory, kMiB);
  other.wait();
  const Word word(machine);
  word.hold(machine, 1);
  const auto one = begin([&] {
    if (first == First::kCopy) machine.copy(pageable.data(), reinterpret_cast<const void*>(memory.get()), kBytes);
    if (first == First::kFree) spare = {};
    if (first == First::kLaunch) unlaunched->launch(third);
  });
  const bool is_back = is_done(one, milliseconds(300));
  const auto two = begin([&] {
    set(other, memory, kMiB);
    if (kernels != nullptr) must(kernels->transfer(other.stream.get(), moves, DType::kF32, DType::kF32));
    other.wait();
  });
  const bool is_other_back = is_done(two, kLimit);
  word.store(1);
  answer("the call beside or in the held stream",
         is_back ? in_us(one.get()) : "blocks; once the stream goes on: " + said(one));
  answer("a launch of another thread meanwhile",
         is_other_back ? in_us(two.get()) : "blocks; once the stream goes on: " + said(two));
  close(leaving);
  if (!is_done(one, kLimit) || !is_done(two, kLimit)) _exit(0);
  machine.wait();
  return true;
}

std::string spread(std::vector<double> times) {
  std::ranges::sort(times);
  return fmt::format("p50 {:.1f} us, p99 {:.1f} us, most {:.1f} us", times[times.size() / 2],
                     times[times.size() * 99 / 100], times.back());
}

bool ask_store() {
  const Machine machine = open();
  const Word word(machine);
  std::vector<double> idle;
  std::vector<double> held;
  for (std::uint32_t i = 1; i <= 1000; ++i) {
    auto start = Clock::now();
    machine.wait();
    idle.push_back(us_since(start));
    word.hold(machine, i);
    const device::Gpu::Current current(*machine.gpu);
    const auto& api = machine.gpu->api();
    must(api.check(api.event_record(machine.event.get(), machine.stream.get()), "cuEventRecord"));
    start = Clock::now();
    while (us_since(start) < 100) continue;  // so that the device has come to the wait
    start = Clock::now();
    word.store(i);
    while (api.event_query(machine.event.get()) == device::kCudaNotReady) continue;
    held.push_back(us_since(start));
  }
  answer("an event of an idle stream, recorded and seen", spread(idle));
  answer("from the host's store to the event behind the wait", spread(held));
  close(leaving);
  return true;
}

std::vector<double> short_operations(const Machine& machine, const device::DeviceMemory& memory) {
  std::vector<double> times;
  const auto begin = Clock::now();
  while (times.size() < 2000 && us_since(begin) < 2e6) {
    const auto start = Clock::now();
    set(machine, memory, 4096);
    machine.wait();
    times.push_back(us_since(start));
  }
  return times;
}

bool ask_switches() {
  const Machine machine = open();
  const device::DeviceMemory memory = must(device::allocate(machine.gpu, kMiB));
  (void)short_operations(machine, memory);
  answer("a short operation alone", spread(short_operations(machine, memory)));
  for (const auto& [name, what] : {std::pair{"held", "beside a process with a stream that waits"},
                                   std::pair{"small", "beside a process with short ones"},
                                   std::pair{"large", "beside a process with ones of 256 MiB"}}) {
    const Child other = start(name);
    if (!is_readable(other.from, 20'000)) return false;
    answer(std::string("a short operation ") + what, spread(short_operations(machine, memory)));
    end(other);
    close(other.from);
  }
  close(leaving);
  return true;
}

// One stream waits: how many others of its priority, and of libmuster's, go on?
bool ask_queues() {
  const Machine machine = open();
  const Word word(machine);
  const device::DeviceMemory memory = must(device::allocate(machine.gpu, kMiB));
  struct Group {
    const char* what;
    device::Priority priority;
    std::size_t count;
    std::vector<Machine> streams{};
  };
  Group groups[] = {{"of the same priority", device::Priority::kLeast, 40},
                    {"of libmuster's priority", device::Priority::kGreatest, 4}};
  for (Group& group : groups) {
    while (group.streams.size() < group.count) {
      group.streams.push_back(
          {machine.gpu, must(device::make_stream(machine.gpu, group.priority)), must(device::make_event(machine.gpu))});
    }
  }
  word.hold(machine, 1);
  const auto& api = machine.gpu->api();
  for (const Group& group : groups) {
    for (const Machine& one : group.streams) {
      set(one, memory, 4096);
      must(machine.gpu->call("cuEventRecord", api.event_record, one.event.get(), one.stream.get()));
    }
  }
  const device::Gpu::Current current(*machine.gpu);
  for (const Group& group : groups) {
    const auto is_over = [&](const Machine& one) { return api.event_query(one.event.get()) == device::kCudaSuccess; };
    const auto start = Clock::now();
    while (!std::ranges::all_of(group.streams, is_over) && us_since(start) < 1e6) std::this_thread::yield();
    answer(fmt::format("streams {} that go on beside one that waits", group.what),
           fmt::format("{} of {}", std::ranges::count_if(group.streams, is_over), group.count));
  }
  word.store(1);
  for (const Group& group : groups) {
    for (const Machine& one : group.streams) one.wait();
  }
  close(leaving);
  return true;
}

bool ask_dead_memory() {
  const Child exporter = start("exporter");
  const Machine machine = open();
  device::IpcMemoryHandle handle{};
  if (!is_readable(exporter.from, 20'000) || read(exporter.from, &handle, sizeof handle) != sizeof handle) return false;
  device::DeviceMemory theirs = must(device::open_memory(machine.gpu, handle));
  const device::DeviceMemory own = must(device::allocate(machine.gpu, kExported));
  const device::Gpu::Current current(*machine.gpu);
  const auto& api = machine.gpu->api();
  device::CudaResult result = device::kCudaSuccess;
  for (int i = 0; i < 200 && result == device::kCudaSuccess; ++i) {
    if (i == 50) (void)kill(exporter.pid, SIGKILL);
    result = api.copy_async(own.get(), theirs.get(), kExported, machine.stream.get());
    if (result == device::kCudaSuccess) result = api.event_record(machine.event.get(), machine.stream.get());
    while (result == device::kCudaSuccess && (result = api.event_query(machine.event.get())) == device::kCudaNotReady) {
      result = device::kCudaSuccess;
      std::this_thread::yield();
    }
  }
  answer("copies out of a dead process's memory",
         result == device::kCudaSuccess ? "end well" : fmt::format("CUDA error {}", result));
  end(exporter);
  close(exporter.from);
  if (result != device::kCudaSuccess) {
    theirs.leave();
    close(leaving);
    std::exit(0);
  }
  close(leaving);
  return true;
}

bool ask(std::string_view what) {
  if (what == "dead_event") return ask_dead_event();
  if (what == "held_copy") return ask_held(First::kCopy);
  if (what == "held_free") return ask_held(First::kFree);
  if (what == "held_launch") return ask_held(First::kLaunch);
  if (what == "store") return ask_store();
  if (what == "queues") return ask_queues();
  if (what == "dead_memory") return ask_dead_memory();
  return what == "switches" && ask_switches();
}

// In a process of its own. False: it could not be asked.
bool ask_apart(const char* what) {
  question = what;
  const Child child = start(what);
  const bool is_over = is_readable(child.from, kQuestionLimit);  // it closes its end
  const auto begin = Clock::now();
  const int process = static_cast<int>(syscall(SYS_pidfd_open, child.pid, 0));
  const bool ends = is_over && is_readable(process, kExitLimit);
  if (!is_over) {
    answer("all of it", "not done after 30 s");
  } else {
    answer("the end of its process", ends ? in_us(us_since(begin)) : "not within 10 s");
  }
  int status = 0;
  if (!ends) (void)kill(child.pid, SIGKILL);
  if (!is_readable(process, kExitLimit)) answer("the end of its process", "not even when it is killed");
  const bool is_known = waitpid(child.pid, &status, WNOHANG) == child.pid;
  close(process);
  close(child.from);
  return !ends || (is_known && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (argc == 3) {
    const std::string_view what = argv[1];
    leaving = std::atoi(argv[2]);
    (void)fcntl(leaving, F_SETFD, FD_CLOEXEC);
    if (what == "victim") be_victim(leaving);
    if (what == "held") be_held(leaving);
    if (what == "exporter") be_exporter(leaving);
    if (what == "small") be_busy(leaving, 4096);
    if (what == "large") be_busy(leaving, 256 * kMiB);
    question = argv[1];
    return ask(what) ? 0 : 1;
  }
  const auto api = device::CudaApi::load();
  if (device::is_no_driver(api.status())) {
    std::printf("skipped: %s\n", api.status().message().c_str());
    return 77;
  }
  must(api.status());
  bool is_right = true;
  for (const char* const what :
       {"dead_event", "held_copy", "held_free", "held_launch", "store", "queues", "switches", "dead_memory"}) {
    if (argc == 1 || std::string_view(argv[1]) == what) is_right = ask_apart(what) && is_right;
  }
  return is_right ? 0 : 1;
}
