// Asks a launcher by its Unix socket. Every call blocks, for at most the patience that it is given; any thread. Errors
// are the launcher's own sentences, or say that it cannot be reached.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd {

class ApiClient {
 public:
  // Connects with the first call.
  explicit ApiClient(const std::string& socket_path);
  ~ApiClient();
  ApiClient(ApiClient&&) noexcept;

  base::Result<v1::Job> get_job(int first_rank, int max_ranks, std::chrono::seconds patience);
  base::Status kill(bool at_once, std::chrono::seconds patience);
  base::Status signal(int signo, std::chrono::seconds patience);
  // Until the job is over or `on_event` says false (ok), or the launcher is gone; without a limit of time.
  base::Status watch(std::uint64_t from_sequence, const std::function<bool(const v1::Event&)>& on_event);
  // `ranks` empty: all.
  base::Status stacks(const std::vector<int>& ranks, std::chrono::seconds patience,
                      const std::function<void(const v1::ProcessStack&)>& on_process);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::launcherd
