#include "agent/job/session_end.h"

namespace muster::agent::inline job {

void SessionEnd::job_is_empty(v1::HostEmpty message, const std::vector<Leftover>& leftovers) {
  message_ = std::move(message);
  if (awaits_no_gpus_) return;
  gpus_.await(leftovers, [this](const std::vector<std::string>& sentences) {
    for (const std::string& sentence : sentences) events_.on_notice(sentence);
    end_gpu_wait();
  });
}

void SessionEnd::give_up_gpus() {
  awaits_no_gpus_ = true;
  if (gpus_.is_waiting()) end_gpu_wait();
}

// Posts the end of the wait, because the caller may be gpus_ itself.
void SessionEnd::end_gpu_wait() {
  loop_.post(gate_.wrap([this] {
    gpus_.give_up();
    events_.on_change();
  }));
}

}  // namespace muster::agent::job
