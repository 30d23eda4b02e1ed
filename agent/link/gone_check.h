// Whether the launcher's process has surely ended, asked after its stream has: it is when its port refuses a
// connection, or when nobody answers there for a while after the stream was ended from its side. A mere cut, after
// which nothing is heard at all, proves nothing.
//
// Loop thread only. `on_gone` comes at most once for each begin(), from the loop.
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
    base::Duration patience = std::chrono::seconds(1);  // for an answer
    base::Duration again = std::chrono::seconds(1);     // between two looks, until end()
  };

  GoneCheck(base::Loop& loop, const base::IpAddress& address, std::uint16_t port, std::function<void()> on_gone)
      : GoneCheck(loop, address, port, std::move(on_gone), Options()) {}
  GoneCheck(base::Loop& loop, const base::IpAddress& address, std::uint16_t port, std::function<void()> on_gone,
            Options options);
  GoneCheck(const GoneCheck&) = delete;
  GoneCheck& operator=(const GoneCheck&) = delete;

  // The stream has ended; `by_launcher` as StreamEnd has it. One that is under way begins anew.
  void begin(bool by_launcher);
  // The launcher has answered.
  void end();

 private:
  void look();
  void answered();
  void result(int error);
  void look_later();

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
