// Measures one pass of launcherd's queue over waiting jobs that all differ.
//   job_queue [--json] [--no-reasons] [--jobs 1000] [--hosts 1000]
// Hosts have 8 slots, 64 cores and 8 GPUs. In the cases that wait, other jobs have half of each host, so that slots are
// free and yet no job starts. "pass" is JobQueue::start(), "reasons" is what a list of all waiting jobs costs. Times
// are the thread's processor time, the best of three; --no-reasons leaves the list out.
#include <time.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "launcherd/queue/job_queue.h"

namespace {

using namespace muster;
using namespace muster::launcherd;

constexpr int kSlots = 8;
constexpr int kCores = 64;
constexpr int kRepetitions = 3;

struct Options {
  bool json = false;
  bool has_reasons = true;
  int jobs = 1000;
  int hosts = 1000;
};

[[noreturn]] void fail(std::string_view why) {
  fmt::print(stderr, "job_queue: {}\n", why);
  std::exit(1);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--json") {
      options.json = true;
      continue;
    }
    if (word == "--no-reasons") {
      options.has_reasons = false;
      continue;
    }
    int* const value = word == "--jobs" ? &options.jobs : word == "--hosts" ? &options.hosts : nullptr;
    if (value == nullptr || i + 1 == argc) fail("usage: job_queue [--json] [--no-reasons] [--jobs N] [--hosts N]");
    const char* const text = argv[++i];
    const auto [end, problem] = std::from_chars(text, text + std::strlen(text), *value);
    if (problem != std::errc() || *end != '\0' || *value < 1) fail(fmt::format("{}: {} is no number", word, text));
  }
  return options;
}

std::string host_name(int number) {
  return fmt::format("node{:04}", number);
}

std::shared_ptr<const model::NodeShape> node(int number, bool has_gpus) {
  auto shape = std::make_shared<model::NodeShape>();
  for (int core = 0; core < kCores; ++core) shape->cores.push_back({.socket = core * 2 / kCores, .cpus = {core}});
  for (int gpu = 0; has_gpus && gpu < kSlots; ++gpu) {
    shape->gpus.push_back(
        {.index = gpu, .uuid = fmt::format("GPU-{:08x}-{:04}", number * kSlots + gpu, gpu), .numa = gpu / 4});
  }
  return shape;
}

// `used`: slots of each, with as many GPUs, that other jobs have.
std::vector<SlotHost> make_hosts(int count, int used, bool has_gpus) {
  std::vector<SlotHost> hosts;
  for (int number = 0; number < count; ++number) {
    SlotHost host{.host = {.name = host_name(number), .slots = kSlots}, .slots = kSlots, .used = used};
    host.is_shared = true;
    host.shape = node(number, has_gpus);
    for (int slot = 0; slot < used; ++slot) {
      model::HostShare share;
      for (int core = 0; core < kCores / kSlots; ++core) share.cpus.push_back(slot * kCores / kSlots + core);
      if (has_gpus) share.devices.push_back(host.shape->gpus[static_cast<std::size_t>(slot)].uuid);
      host.use.add(share);
    }
    hosts.push_back(std::move(host));
  }
  return hosts;
}

struct Case {
  std::string name;
  int used = 0;
  bool has_gpus = false;
  std::function<JobNeed(int number)> need;
};

JobNeed sized(int np) {
  JobNeed need;
  need.request.np = np;
  return need;
}

JobNeed named(int np, int first, int count, int hosts) {
  JobNeed need = sized(np);
  for (int i = 0; i < count; ++i) need.request.hosts.push_back({.name = host_name((first + i) % hosts)});
  return need;
}

JobNeed with_gpus(int np, int each) {
  JobNeed need = sized(np);
  need.share.pinning.gpus_per_rank = each;
  return need;
}

std::vector<Case> cases(const Options& options) {
  const int hosts = options.hosts;
  return {
      {"size, start", 0, false, [](int number) { return sized(1 + number); }},
      {"size, GPUs, start", 0, true, [](int number) { return sized(1 + number); }},
      {"3 named hosts, start", 0, true, [=](int number) { return named(1 + number % 12, number, 3, hosts); }},
      {"GPUs a rank, start", 0, true, [](int number) { return with_gpus(1 + number / 8, 1 + number % 8); }},
      {"-N, wait", kSlots / 2, false,
       [=](int number) {
         JobNeed need = sized(hosts * 2 + number);
         need.request.ranks_per_node = 1 + number % 2;
         return need;
       }},
      {"3 named hosts, wait", kSlots / 2, true, [=](int number) { return named(13 + number % 12, number, 3, hosts); }},
      {"half of the hosts named, wait", kSlots / 2, true,
       [=](int number) { return named(hosts * 2 + 1 + number, number, hosts / 2, hosts); }},
      {"GPUs a rank, wait", kSlots / 2, true, [](int number) { return with_gpus(1 + number, 5 + number % 4); }},
      {"GPUs and masks, wait", kSlots / 2, true,
       [](int number) {
         JobNeed need = with_gpus(1 + number, 3);
         need.share.masks.cuda = fmt::format("{},{},{},7", number % 4, (number + 1) % 4, 4 + number % 3);
         return need;
       }},
      {"depth, wait", kSlots / 2, true,
       [](int number) {
         JobNeed need = sized(1 + number);
         need.share.pinning.bind_to = model::BindTo::kDepth;
         need.share.pinning.depth = kCores / 2 + 1 + number % 16;
         return need;
       }},
      {"placed ranks, wait", kSlots / 2, true,
       [=](int number) {
         JobNeed need = sized(kSlots);
         for (int rank = 0; rank < kSlots; ++rank)
           need.places.push_back({.rank = rank, .host = host_name(number % hosts)});
         return need;
       }},
  };
}

base::JobId id_of(int number) {
  std::string text(8, 'a');
  for (std::size_t i = text.size(); i-- > 0; number /= 26) text[i] = static_cast<char>('a' + number % 26);
  return *base::JobId::parse(text);
}

// Measures this thread alone, so that other programs on the machine do not count.
double cpu_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

void measure(const Case& each, const Options& options) {
  const std::vector<SlotHost> hosts = make_hosts(options.hosts, each.used, each.has_gpus);
  double pass = 1e9;
  double reasons = 1e9;
  double submit = 0;
  std::size_t started = 0;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    JobQueue queue;
    double begin = cpu_ms();
    for (int number = 0; number < options.jobs; ++number) {
      queue.add(id_of(number), 0, static_cast<std::uint64_t>(number), each.need(number));
    }
    submit = cpu_ms() - begin;
    std::vector<SlotHost> left = hosts;
    begin = cpu_ms();
    started = queue.start(left).size();
    pass = std::min(pass, cpu_ms() - begin);
    begin = cpu_ms();
    JobQueue::Reasons all(queue, left);
    for (int number = 0; options.has_reasons && number < options.jobs; ++number) all.of(id_of(number));
    reasons = std::min(reasons, cpu_ms() - begin);
  }
  if (options.json) {
    fmt::print(
        R"({{"bench":"job_queue","case":"{}","jobs":{},"hosts":{},"started":{},"pass_ms":{:.2f},"reasons_ms":{:.2f}}})"
        "\n",
        each.name, options.jobs, options.hosts, started, pass, reasons);
  } else {
    fmt::print("{:<30} {:>8} {:>9.1f} {:>11.1f} {:>10.1f}\n", each.name, started, pass, reasons, submit);
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  if (!options.json) {
    fmt::print("{} jobs, {} hosts\n{:<30} {:>8} {:>9} {:>11} {:>10}\n", options.jobs, options.hosts, "jobs differ in",
               "started", "pass ms", "reasons ms", "submit ms");
  }
  for (const Case& each : cases(options)) measure(each, options);
  return 0;
}
