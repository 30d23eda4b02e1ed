// Finds out whether the launcher's process has certainly ended. The agent begins the check when the stream has ended.
// The process has ended if its port refuses a connection. It has also ended if the launcher's side ended the stream
// and the port then gives no answer.
// A cut without an end from the launcher's side proves nothing.
//
// Thread: the loop thread only. The loop calls `on_gone` at most once for each begin().
#pragma once

#include <cstdint>
#include <functional>

#include "base/clock.h"
#include "base/loop.h"
#include "base/net.h"
#include "base/unique_fd.h"

namespace muster::agent::inline link {

class GoneCheck {
 public:
  struct Options {
    base::Duration patience = std::chrono::seconds(1);  // how long to wait for an answer
    base::Duration again = std::chrono::seconds(1);     // between two attempts, until end()
  };

  GoneCheck(base::Loop& loop, const base::IpAddress& address, std::uint16_t port, std::function<void()> on_gone)
      : GoneCheck(loop, address, port, std::move(on_gone), Options()) {}
  GoneCheck(base::Loop& loop, const base::IpAddress& address, std::uint16_t port, std::function<void()> on_gone,
            Options options);
  GoneCheck(const GoneCheck&) = delete;
  GoneCheck& operator=(const GoneCheck&) = delete;

  // Call it when the stream has ended. `by_launcher` is StreamEnd::is_by_launcher. A check that is under way starts
  // again.
  void begin(bool by_launcher);
  // Call it when the launcher has answered. Ends the check.
  void end();

 private:
  void probe();
  void answered();
  void result(int error);
  void probe_later();

  base::Loop& loop_;
  const base::IpAddress address_;
  const std::uint16_t port_;
  const std::function<void()> on_gone_;
  const Options options_;
  bool is_ended_by_launcher_ = false;
  base::UniqueFd socket_;
  base::Timer watch_;
  base::Timer deadline_;
  base::Timer next_;
};

}  // namespace muster::agent::link
