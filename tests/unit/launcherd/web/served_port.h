// A client of one HTTP port of launcherd: connections, and replies as text.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "base/net.h"
#include "base/unique_fd.h"

namespace muster::launcherd::served_port {

// Connects to the port of "http://127.0.0.1:PORT…". Reads fail after 30 s.
inline base::UniqueFd connected(const std::string& url) {
  base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto port = static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
  const base::SockAddr to = base::make_sockaddr(base::IpAddress::parse("127.0.0.1").value(), port);
  EXPECT_EQ(::connect(fd.get(), to.get(), to.size), 0);
  const timeval limit{.tv_sec = 30, .tv_usec = 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  return fd;
}

// Returns all that the other end sends until it closes.
inline std::string rest_of(const base::UniqueFd& fd) {
  std::string answer;
  char block[4096];
  for (ssize_t got = 0; (got = ::read(fd.get(), block, sizeof block)) > 0;) {
    answer.append(block, static_cast<std::size_t>(got));
  }
  return answer;
}

}  // namespace muster::launcherd::served_port
