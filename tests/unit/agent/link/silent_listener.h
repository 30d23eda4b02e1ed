// A port of this machine that never answers, like a machine behind a cut link. The queue of its listener is full.
#pragma once

#include <sys/socket.h>

#include <vector>

#include <gtest/gtest.h>

#include "base/net.h"

namespace muster::testing_support {

class SilentListener {
 public:
  explicit SilentListener(const base::IpAddress& here) {
    auto listening = base::listen_on(here, 0, 0);
    EXPECT_TRUE(listening.ok()) << listening.status();
    if (!listening.ok()) return;
    listening_ = *std::move(listening);
    port_ = *base::local_port(listening_.get());
    const base::SockAddr to = base::make_sockaddr(here, port_);
    for (int i = 0; i < 4; ++i) {
      queue_.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      (void)::connect(queue_.back().get(), to.get(), to.size);
    }
  }
  std::uint16_t port() const { return port_; }

 private:
  base::UniqueFd listening_;
  std::uint16_t port_ = 0;
  std::vector<base::UniqueFd> queue_;
};

}  // namespace muster::testing_support
