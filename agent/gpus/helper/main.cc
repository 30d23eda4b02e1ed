// muster-gpus: reads the state of the host's GPUs, NVIDIA's through its management library, others' through the
// kernel's files.
// The agent is static and cannot load a library of the host. It carries this program in itself and starts it if the
// host has GPUs to ask about (docs/adr/0024). If a driver or a lock hangs, only this process hangs.
//
//   muster-gpus FD    FD is a socket to the agent; its messages are in agent/gpus/report.h; if it closes, muster-gpus
//   ends
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <utility>

#include "agent/gpus/helper/file_survey.h"
#include "agent/gpus/helper/nvml_library.h"
#include "agent/gpus/helper/survey.h"
#include "agent/gpus/pid_namespace.h"
#include "agent/process/message_socket.h"
#include "base/print.h"
#include "base/strings.h"

namespace muster::agent::inline gpus {
namespace {

// Loads the library at the first question. If that fails, tries again later, because a driver may be loaded by then.
class Surveyor {
 public:
  GpuReport answer(const Question& question) {
    GpuReport report = question.nvidia ? survey_nvidia() : GpuReport();
    report.foreign_pids =
        !report.driver.empty() && !does_driver_translate_pids(report.driver) && !is_in_host_namespace(question.root);
    if (question.files) report.others = survey_files(::geteuid(), question.root);
    if (question.nvidia_files) report.nvidia_files = survey_nvidia_files(question.root);
    return report;
  }

 private:
  GpuReport survey_nvidia() {
    if (!nvml_) {
      auto loaded = load_nvml();
      if (!loaded.ok()) return failed(loaded.status());
      nvml_ = std::move(*loaded);
    }
    auto report = survey(*nvml_);
    if (report.ok()) return *std::move(report);
    nvml_.reset();
    return failed(report.status());
  }

  static GpuReport failed(const base::Status& why) { return {.problem = why.message().substr(0, kMaxText)}; }

  std::unique_ptr<NvmlApi> nvml_;
};

base::Status serve(MessageSocket& agent) {
  Surveyor surveyor;
  while (true) {
    MUSTER_RETURN_IF_ERROR(agent.flush());
    pollfd event{agent.fd(), static_cast<short>(agent.wants_to_write() ? POLLIN | POLLOUT : POLLIN), 0};
    if (::poll(&event, 1, -1) < 0 && errno != EINTR) return base::errno_error(errno, "wait for the agent");
    MUSTER_ASSIGN_OR_RETURN(const std::vector<SocketMessage> messages, agent.receive());
    for (const SocketMessage& message : messages) {
      MUSTER_ASSIGN_OR_RETURN(const Question question, decode_question(message.payload));
      agent.send(encode(surveyor.answer(question)));
    }
    if (agent.peer_gone()) return base::ok_status();
  }
}

int run(int argc, char** argv) {
  const auto fd = argc == 2 ? base::parse_decimal(argv[1], 1 << 20) : std::nullopt;
  if (!fd) {
    base::print_remark("muster-gpus is started by Muster's agent: it needs a socket\n");
    return 2;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // kills this helper if the agent dies; serve() also ends when the socket closes
  // This program was started through a descriptor, so the kernel named it after the descriptor's number.
  ::prctl(PR_SET_NAME, "muster-gpus");
  (void)::signal(SIGPIPE, SIG_IGN);
  MessageSocket agent(base::UniqueFd(static_cast<int>(*fd)), kMaxMessage);
  const base::Status served = serve(agent);
  if (!served.ok()) base::print_remark("muster-gpus: {}\n", served.message());
  // Skip the library's exit handlers, because they may wait for the driver.
  std::_Exit(served.ok() ? 0 : 1);
}

}  // namespace
}  // namespace muster::agent::gpus

int main(int argc, char** argv) {
  return muster::agent::gpus::run(argc, argv);
}
