#include "agent/gpus/helper.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "agent/gpus/helper_program.h"
#include "agent/gpus/killed_helpers.h"
#include "agent/process/carried_program.h"
#include "base/clock.h"

namespace muster::agent::inline gpus {
namespace {

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

int milliseconds_until(base::MonotonicTime deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
}

}  // namespace

bool has_nvidia_driver(const std::string& root) {
  // The last path exists in WSL, where the driver is Windows's.
  return exists(root + "/proc/driver/nvidia") || exists(root + "/dev/nvidiactl") || exists(root + "/dev/dxg");
}

base::Result<Helper> Helper::start(const base::Environment& login_environment) {
  CarriedProgram program{.name = "muster-gpus", .bytes = helper_program()};
  if (const auto path = login_environment.get("LD_LIBRARY_PATH")) {
    program.environment.push_back(fmt::format("LD_LIBRARY_PATH={}", *path));
  }
  MUSTER_ASSIGN_OR_RETURN(CarriedChild child, start_carried(std::move(program)));
  return Helper(child.pid, std::move(child.socket));
}

Helper::Helper(Helper&& other) noexcept : pid_(std::exchange(other.pid_, 0)), socket_(std::move(other.socket_)) {}

Helper& Helper::operator=(Helper&& other) noexcept {
  if (this == &other) return *this;
  end();
  pid_ = std::exchange(other.pid_, 0);
  socket_ = std::move(other.socket_);
  return *this;
}

base::Status Helper::ask(const Question& question) {
  socket_.send(encode(question));
  return socket_.flush();
}

base::Result<std::optional<GpuReport>> Helper::receive() {
  MUSTER_RETURN_IF_ERROR(socket_.flush());
  MUSTER_ASSIGN_OR_RETURN(const std::vector<SocketMessage> messages, socket_.receive());
  if (!messages.empty()) {
    MUSTER_ASSIGN_OR_RETURN(GpuReport report, decode_report(messages.back().payload));
    return std::optional<GpuReport>(std::move(report));
  }
  if (socket_.peer_gone()) {
    return base::unavailable(
        "muster-gpus, which inspects the GPUs, ended without an answer: the host's C library may be too "
        "old for it, or NVIDIA's management library crashed; try nvidia-smi on that host");
  }
  return std::optional<GpuReport>();
}

pid_t Helper::kill_unreaped() {
  ::kill(pid_, SIGKILL);  // no other process can have its pid, because it is our unreaped child
  socket_.close();
  return std::exchange(pid_, 0);
}

void Helper::end() {
  if (pid_ != 0) await_end_blocking(kill_unreaped(), kEndPatience);
}

std::string no_answer(const Question& question, std::chrono::milliseconds patience) {
  const double seconds = std::chrono::duration<double>(patience).count();
  if (question.nvidia) {
    return fmt::format(
        "NVIDIA's management library has not answered within {} s: the driver may hang; try nvidia-smi on that host",
        seconds);
  }
  return fmt::format(
      "the files of the GPU driver could not be read within {} s: the driver may hang; check that host's kernel log",
      seconds);
}

base::Result<GpuReport> survey_blocking(const base::Environment& login_environment, std::chrono::milliseconds patience,
                                        std::optional<Helper>* hung, const Question& question) {
  const base::MonotonicTime deadline = std::chrono::steady_clock::now() + patience;
  MUSTER_ASSIGN_OR_RETURN(Helper helper, Helper::start(login_environment));
  MUSTER_RETURN_IF_ERROR(helper.ask(question));
  while (true) {
    pollfd event{helper.fd(), POLLIN, 0};
    const int ready = ::poll(&event, 1, milliseconds_until(deadline));
    if (ready < 0 && errno != EINTR) return base::errno_error(errno, "wait for muster-gpus");
    if (ready == 0) {
      if (hung != nullptr) *hung = std::move(helper);
      return base::deadline_exceeded("{}", no_answer(question, patience));
    }
    MUSTER_ASSIGN_OR_RETURN(std::optional<GpuReport> report, helper.receive());
    if (report) return *std::move(report);
  }
}

}  // namespace muster::agent::gpus
