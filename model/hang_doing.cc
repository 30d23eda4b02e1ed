// All of hang_doing.h. Read doing_of() first; the names of libraries and of kernel functions are above it.
#include "model/hang_doing.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::model {
namespace {

// A rank that waits uses less. Libraries and monitors wake up now and then: some wake-ups a second need 0.1 %.
constexpr double kIdleShare = 0.02;
// A rank that reads from a socket with more than this gets bytes.
constexpr double kReadingShare = 0.01;
// The kernel counts CPU time in units of 10 ms. One unit is noise if the looks are less than a second apart.
constexpr std::int64_t kCpuUnitMs = 10;
// A rank that computes uses more, also if it shares its core with others.
constexpr double kBusyShare = 0.1;

// Parts of the paths of Python libraries in which ranks wait for each other.
constexpr std::array<std::string_view, 6> kPeerFiles = {
    "/torch/distributed/",  "/horovod/", "/mpi4py/", "/deepspeed/comm/", "/oneccl_bindings_for_pytorch/",
    "/jax/_src/distributed"};
// Ends of the paths of our Python library in which ranks wait for each other. It may lie in any folder.
constexpr std::array<std::string_view, 7> kOwnFiles = {"/muster/engine.py",
                                                       "/muster/requests.py",
                                                       "/muster/world.py",
                                                       "/muster/numpy.py",
                                                       "/muster/basics.py",
                                                       "/muster/torch/mpi_ops.py",
                                                       "/muster/tensorflow/mpi_ops.py"};
// Beginnings of the names of native functions in which ranks wait for each other.
constexpr std::array<std::string_view, 17> kPeerFunctions = {
    "MPI_", "PMPI_", "MPIDI_", "MPID_", "MPIR_",   "MPII_", "opal_", "ompi_", "mca_",
    "ucp_", "uct_",  "ucs_",   "nccl",  "muster_", "PMIx_", "PMI_",  "psm2_",
};
// Parts of C++ names in which ranks wait for each other, plain and mangled.
constexpr std::array<std::string_view, 4> kPeerNamespaces = {"gloo::", "c10d::", "N4gloo", "N4c10d"};
// Kernel functions that wait for bytes of a connection.
constexpr std::array<std::string_view, 6> kSocketWaits = {"wait_woken",  "sk_wait_data", "tcp_recvmsg",
                                                          "unix_stream", "__skb_wait",   "inet_recvmsg"};
// Kernel functions that wait for a connection or for one of several events.
constexpr std::array<std::string_view, 10> kServiceWaits = {
    "inet_csk_accept", "inet_csk_wait", "ep_poll",   "do_epoll",        "do_poll",
    "do_sys_poll",     "poll_schedule", "do_select", "core_sys_select", "unix_accept"};
// Files of Python's library whose functions read from a connection, also by poll.
constexpr std::array<std::string_view, 3> kReadingFiles = {"/socket.py", "/ssl.py", "/multiprocessing/connection.py"};

template <std::size_t N>
bool begins_with_any(std::string_view text, const std::array<std::string_view, N>& words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return text.starts_with(word); });
}

template <std::size_t N>
bool has_any(std::string_view text, const std::array<std::string_view, N>& words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

bool uses_less(const RankEvidence& look, double share) {
  return look.cpu_ms <= kCpuUnitMs || cpu_share(look) < share;
}

bool is_ours(const PythonCall& call) {
  return std::ranges::any_of(kOwnFiles, [&](std::string_view end) { return call.file.ends_with(end); });
}

bool is_of_library(const PythonCall& call) {
  constexpr std::array<std::string_view, 3> kParts = {"/site-packages/", "/dist-packages/", "/lib/python3"};
  return call.file.starts_with("<frozen") || is_ours(call) || has_any(call.file, kParts);
}

bool is_in_peer_library(const RankEvidence& look) {
  if (begins_with_any(look.native, kPeerFunctions) || has_any(look.native, kPeerNamespaces)) return true;
  // Only the innermost calls count: launchers of such libraries call the whole program.
  constexpr std::size_t kInner = 4;
  const std::size_t inner = std::min(kInner, look.python.size());
  for (std::size_t i = 0; i < inner; ++i) {
    if (!is_of_library(look.python[i])) return false;
    if (is_ours(look.python[i]) || has_any(look.python[i].file, kPeerFiles)) return true;
  }
  return false;
}

bool reads_from_socket(const RankEvidence& look) {
  if (begins_with_any(look.wait_channel, kSocketWaits)) return true;
  if (look.python.empty() || !begins_with_any(look.wait_channel, kServiceWaits)) return false;
  const std::string& file = look.python.front().file;
  const bool is_reading_file =
      std::ranges::any_of(kReadingFiles, [&](std::string_view name) { return file.ends_with(name); });
  return is_reading_file && look.python.front().function.find("accept") == std::string::npos;
}

int line_of(const RankEvidence& look) {
  return look.python.empty() ? 0 : look.python.front().line;
}

// The looks at one rank, with what all of them have in common.
struct Looks {
  std::span<const RankEvidence* const> all;

  template <typename Is>
  bool each(Is is) const {
    return std::ranges::all_of(all, [&](const RankEvidence* look) { return is(*look); });
  }
  const RankEvidence& last() const { return *all.back(); }
  double least_share() const {
    double least = cpu_share(last());
    for (const RankEvidence* look : all) least = std::min(least, cpu_share(*look));
    return least;
  }
  bool use_less(double share) const {
    return each([share](const RankEvidence& look) { return uses_less(look, share); });
  }
  bool has_one_chain() const {
    return each([&](const RankEvidence& look) { return is_same_chain(look, last()); });
  }
  bool is_in_state(std::string_view state) const {
    return each([&](const RankEvidence& look) { return look.state == state; });
  }
  bool is_in_state_once(std::string_view state) const {
    return !each([&](const RankEvidence& look) { return look.state != state; });
  }
  bool is_still() const {
    return each([&](const RankEvidence& look) { return !look.moving && line_of(look) == line_of(last()); });
  }
  // True if an operation of libmuster has begun or ended between the looks, or the program has called heartbeat().
  bool has_progress() const {
    return !each([&](const RankEvidence& look) {
      if (look.collective.has_value() != last().collective.has_value()) return false;
      if (!look.collective) return true;
      return look.collective->begun == last().collective->begun && look.collective->ended == last().collective->ended &&
             look.collective->beats == last().collective->beats;
    });
  }
  // True if PyTorch has begun or ended an operation between the looks.
  bool has_torch_progress() const {
    return !each([&](const RankEvidence& look) {
      return !look.torch || !last().torch ||
             (look.torch->group == last().torch->group && look.torch->sequence == last().torch->sequence &&
              look.torch->is_open() == last().torch->is_open());
    });
  }
  // True if PyTorch's flight recorder shows an open operation in all looks.
  bool is_in_torch() const {
    return each([](const RankEvidence& look) { return look.torch && look.torch->is_open(); });
  }
  bool is_in_collective() const {
    return each([](const RankEvidence& look) { return look.collective && look.collective->is_open(); });
  }
};

// True if the innermost Python call waits for another thread or process. A thread that was just woken is in state R,
// too.
bool waits_for_workers(const RankEvidence& look) {
  constexpr std::array<std::string_view, 3> kFiles = {"/threading.py", "/subprocess.py",
                                                      "/multiprocessing/connection.py"};
  return !look.python.empty() &&
         std::ranges::any_of(kFiles, [&](std::string_view name) { return look.python.front().file.ends_with(name); });
}

RankDoing busy_doing(const Looks& looks) {
  const auto running = std::ranges::count_if(looks.all, [](const RankEvidence* look) { return look->state == "R"; });
  const bool is_main_busy = 2 * static_cast<std::size_t>(running) > looks.all.size();
  // Other threads or children may work while the main thread waits for them.
  if (!is_main_busy || looks.least_share() < kBusyShare) return RankDoing::kWorks;
  if (looks.last().python.empty() && looks.last().native.empty()) return RankDoing::kWorks;  // its place is unknown
  if (waits_for_workers(looks.last())) return RankDoing::kWorks;
  return looks.is_still() ? RankDoing::kComputes : RankDoing::kLoops;
}

RankDoing idle_doing(const Looks& looks) {
  const auto is_reading = [](const RankEvidence& look) { return reads_from_socket(look); };
  if (looks.each(is_reading)) return looks.use_less(kReadingShare) ? RankDoing::kSocket : RankDoing::kWorks;
  if (!looks.is_still()) return RankDoing::kWorks;
  // A rank in state R or D wants a core or a disk. On a host with too much to do it gets neither, and does not hang.
  if (looks.is_in_state_once("R") || looks.is_in_state_once("D")) return RankDoing::kWorks;
  const auto is_serving = [](const RankEvidence& look) { return begins_with_any(look.wait_channel, kServiceWaits); };
  return looks.each(is_serving) ? RankDoing::kServes : RankDoing::kBlocked;
}

}  // namespace

double cpu_share(const RankEvidence& look) {
  return look.looked_ms <= 0 ? 0 : static_cast<double>(look.cpu_ms) / static_cast<double>(look.looked_ms);
}

bool is_idle(const RankEvidence& look) {
  return uses_less(look, kIdleShare);
}

bool is_same_chain(const RankEvidence& one, const RankEvidence& other) {
  if (one.python.empty() && other.python.empty()) return one.native == other.native;
  return std::ranges::equal(one.python, other.python, [](const PythonCall& a, const PythonCall& b) {
    return a.function == b.function && a.file == b.file;
  });
}

RankDoing doing_of(std::span<const RankEvidence* const> all) {
  const Looks looks{all};
  if (all.empty()) return RankDoing::kUnknown;
  if (looks.each([](const RankEvidence& look) { return look.fully_stopped; })) return RankDoing::kStopped;
  // A rank that was looked at only once may have moved.
  if (!looks.each([](const RankEvidence& look) { return !look.state.empty() && look.looked_ms > 0; })) {
    return RankDoing::kUnknown;
  }
  const auto is_with_peers = [](const RankEvidence& look) { return is_in_peer_library(look); };
  if (looks.has_progress() || looks.has_torch_progress()) return RankDoing::kWorks;
  // The native functions of a rank that waits in a library change all the time.
  const bool waits = looks.is_in_collective() || looks.is_in_torch() || looks.each(is_with_peers);
  const bool has_python = !looks.last().python.empty();
  if (!looks.has_one_chain() && (has_python || !waits)) return RankDoing::kWorks;
  if (looks.is_in_state("D")) {
    return looks.use_less(kReadingShare) && looks.is_still() ? RankDoing::kDisk : RankDoing::kWorks;
  }
  if (looks.is_in_collective()) return RankDoing::kCollective;
  const std::string& awaits = looks.last().awaits;
  if (!awaits.empty() && looks.each([&](const RankEvidence& look) { return look.awaits == awaits; })) {
    return RankDoing::kKey;
  }
  if (waits) return RankDoing::kPeers;
  return looks.use_less(kIdleShare) ? idle_doing(looks) : busy_doing(looks);
}

std::string text_of(const PythonCall& call) {
  const std::string_view file = std::string_view(call.file).substr(call.file.rfind('/') + 1);
  return call.line > 0 ? fmt::format("{} ({}:{})", call.function, file, call.line)
                       : fmt::format("{} ({})", call.function, file);
}

std::string place_of(const RankEvidence& evidence) {
  const auto own = std::ranges::find_if(evidence.python, [](const PythonCall& call) { return !is_of_library(call); });
  if (own != evidence.python.end()) return base::printable(text_of(*own));
  if (!evidence.python.empty()) return base::printable(text_of(evidence.python.front()));
  return evidence.native.empty() ? "" : base::printable(evidence.native) + " ()";
}

std::string_view name_of(RankDoing doing) {
  constexpr std::array<std::string_view, 12> kNames = {"unknown",    "stopped", "works",  "disk",
                                                       "collective", "key",     "peers",  "loops",
                                                       "computes",   "socket",  "serves", "blocked"};
  return kNames.at(static_cast<std::size_t>(doing));
}

}  // namespace muster::model
