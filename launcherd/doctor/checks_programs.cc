// The checks of what ranks find on the host: cores, GPUs, networks, python and torch.
// Read the checks in any order; the functions before check_gpu_memory describe which processes use GPUs.
#include <algorithm>
#include <map>

#include "base/net.h"
#include "base/strings.h"
#include "launcherd/doctor/checks.h"
#include "model/device_id.h"
#include "proto/convert.h"

namespace muster::launcherd::inline doctor {
namespace {

using model::Check;
using model::CheckState;

std::string speed(std::int64_t mbps) {
  if (mbps <= 0) return "";
  return mbps % 1000 == 0 ? fmt::format(" {} Gbit/s", mbps / 1000) : fmt::format(" {} Mbit/s", mbps);
}

std::string addresses_on(const v1::Hello& hello, const std::string& interface) {
  std::string text;
  for (const v1::NetworkInterface& entry : hello.interfaces()) {
    if (entry.name() == interface) text += " " + entry.address();
  }
  return text;
}

bool has_network_address(const v1::Hello& hello) {
  for (const v1::NetworkInterface& entry : hello.interfaces()) {
    const auto address = base::IpAddress::parse(entry.address());
    if (address.ok() && !address->is_loopback()) return true;
  }
  return false;
}

}  // namespace

Check check_cores(const v1::Hello& hello) {
  std::map<int, int> sockets;
  int threads = 0;
  for (const v1::Core& core : hello.cores()) {
    ++sockets[core.socket()];
    threads += core.cpus_size();
  }
  Check check{
      "cores", CheckState::kOk,
      fmt::format("{} cores of {} threads on {} {}, {:.0f} GiB memory", hello.cores_size(), threads, sockets.size(),
                  sockets.size() == 1 ? "socket" : "sockets", static_cast<double>(hello.memory_mib()) / 1024),
      ""};
  if (hello.cores_size() > 0) return check;
  return {"cores", CheckState::kFail, "this log-in may use no core", "check the cpuset of sshd's cgroup there"};
}

const char* make_of(v1::GpuVendor vendor) {
  if (vendor == v1::GPU_VENDOR_AMD) return "AMD GPU";
  return vendor == v1::GPU_VENDOR_INTEL ? "Intel GPU" : "NVIDIA GPU";
}

namespace {

std::string text_of(v1::GpuVendor vendor, int index, const std::string& part = {}) {
  return model::gpu_text(proto::vendor_of(vendor).value_or(model::GpuVendor::kNvidia), index, part);
}

// Returns "GPU 3: 1200 MiB of pid 1234 (python3, uid 1001)".
std::string describe(const v1::GpuUser& user) {
  const std::string what = user.has_memory_mib() ? fmt::format("{} MiB", user.memory_mib()) : "memory";
  const std::string who = user.is_foreign()  ? "the host's number"
                          : user.has_ended() ? "not visible to the agent"
                                             : fmt::format("{}, uid {}", base::printable(user.command()), user.uid());
  return fmt::format("{}: {} of pid {} ({})", text_of(user.vendor(), user.gpu(), user.part()), what, user.pid(), who);
}

// Says which processes on GPUs the agent cannot see. Empty if it sees all of them. The kernel shows a process on an
// Intel GPU only to its own user and to root, and only within its PID namespace.
std::string unknown_users(const v1::HostFacts& facts) {
  std::string silent;
  bool is_own_only = false;
  for (const v1::UntoldGpu& gpu : facts.untold_gpus()) {
    is_own_only = is_own_only || gpu.own_only();
    if (gpu.own_only()) continue;
    silent += fmt::format("{}{}", silent.empty() ? "" : ", ", text_of(gpu.vendor(), gpu.index()));
  }
  if (!silent.empty()) silent = "the driver does not report the users of " + silent;
  if (!is_own_only) return silent;
  return silent + (silent.empty() ? "" : "; ") + "processes of other users or outside the container are not visible";
}

// Returns the text for a host where no user of a GPU is visible.
std::string no_user(const v1::HostFacts& facts) {
  const std::string rest = unknown_users(facts);
  const auto is_silent = [](const v1::UntoldGpu& gpu) { return !gpu.own_only(); };
  const auto silent = std::ranges::count_if(facts.untold_gpus(), is_silent);
  if (silent > 0 && silent == facts.hello().gpus_size()) return rest;
  const char* const none = facts.untold_gpus_size() > 0 ? "no visible process holds any" : "no process holds any";
  return rest.empty() ? none : fmt::format("{}; {}", none, rest);
}

}  // namespace

Check check_gpu_memory(const v1::HostFacts& facts) {
  constexpr int kMostShown = 8;
  if (facts.gpu_users().empty()) return {"gpu memory", CheckState::kOk, no_user(facts), ""};
  std::string seen;
  bool has_ended = false;
  bool is_foreign = false;
  for (int i = 0; i < facts.gpu_users_size(); ++i) {
    has_ended = has_ended || facts.gpu_users(i).has_ended();
    is_foreign = is_foreign || facts.gpu_users(i).is_foreign();
    if (i < kMostShown) seen += fmt::format("{}{}", i == 0 ? "" : "; ", describe(facts.gpu_users(i)));
  }
  if (facts.gpu_users_size() > kMostShown) seen += fmt::format("; {} more", facts.gpu_users_size() - kMostShown);
  if (const std::string rest = unknown_users(facts); !rest.empty()) seen += "; " + rest;
  const char* const advice =
      has_ended    ? "the driver has not released the memory of an ended process, or the process runs outside this "
                     "container: run the driver's tool (nvidia-smi, rocm-smi) on the host itself"
      : is_foreign ? "the agent runs in a container and cannot identify these processes: check on the host itself"
                   : "a job there shares the GPUs with these processes: end those that nobody needs";
  return {"gpu memory", CheckState::kWarn, seen, advice};
}

Check check_gpus(const v1::HostFacts& facts) {
  std::map<std::string, int> models;
  for (const v1::Gpu& gpu : facts.hello().gpus()) {
    ++models[!gpu.model().empty() ? gpu.model() : make_of(gpu.vendor())];
  }
  const std::string driver = facts.nvidia_driver().empty() ? "" : ", driver " + facts.nvidia_driver();
  std::string seen;
  for (const auto& [name, count] : models) seen += fmt::format("{}{} x {}", seen.empty() ? "" : ", ", count, name);
  if (!facts.hello().gpu_problem().empty()) {
    // If the agent found a driver, the problem is about one GPU. Otherwise it is about the library of the driver.
    const bool has_driver = !facts.hello().gpu_driver().empty();
    const std::string what = !has_driver    ? fmt::format("{} seen in the driver's files", facts.hello().gpus_size())
                             : seen.empty() ? std::string("none")
                                            : seen;
    return {"gpus", CheckState::kWarn, what + driver, base::printable(facts.hello().gpu_problem())};
  }
  if (models.empty() && driver.empty()) return {"gpus", CheckState::kOk, "none", ""};
  if (models.empty()) {
    return {"gpus", CheckState::kWarn, "none" + driver, "run nvidia-smi there: the driver is loaded but has no GPU"};
  }
  return {"gpus", CheckState::kOk, seen + driver, ""};
}

Check check_nics(const v1::HostFacts& facts) {
  Check check{.name = "nics"};
  std::string down;
  for (const v1::NicFact& nic : facts.nics()) {
    const bool is_infiniband = nic.kind() == "infiniband";
    const std::string addresses = is_infiniband ? "" : addresses_on(facts.hello(), nic.name());
    if (is_infiniband && nic.state() != "ACTIVE") down = nic.name();
    if (!is_infiniband && addresses.empty()) continue;  // a bridge or an unused port
    check.seen +=
        fmt::format("{}{}{}{}", check.seen.empty() ? "" : "; ", nic.name(), addresses, speed(nic.speed_mbps()));
    if (is_infiniband) check.seen += " " + nic.state();
  }
  if (!has_network_address(facts.hello())) {
    return {"nics", CheckState::kWarn, "only a loopback address",
            "bring up an interface: other hosts cannot reach this one"};
  }
  if (!down.empty()) {
    check.state = CheckState::kWarn;
    check.advice = fmt::format("check the cable and the subnet manager of {} (ibstat)", down);
  }
  return check;
}

Check check_python(const v1::HostFacts& facts) {
  const v1::PythonFact& python = facts.python();
  if (!python.version().empty()) {
    return {"python", CheckState::kOk, fmt::format("{}, {}", python.version(), python.path()), ""};
  }
  const std::string why = facts.has_python() ? python.failure() : "not checked: no job can be contained there";
  return {"python", CheckState::kWarn, why,
          "Python programs do not run there: install python3, or put it into the PATH of this log-in or of hvdrun"};
}

Check check_torch(const v1::HostFacts& facts) {
  const v1::PythonFact& python = facts.python();
  if (python.version().empty()) return {"torch", CheckState::kOk, "unknown without python3", ""};
  return {"torch", CheckState::kOk,
          python.torch().empty() ? fmt::format("not installed for {}", python.path()) : python.torch(), ""};
}

}  // namespace muster::launcherd::doctor
