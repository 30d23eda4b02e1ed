// Connections that come for communicators: taken, forgotten, or never made.
#include "collectives/join/service.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <ctime>
#include <vector>

#include "base/net.h"
#include "collectives/transport/dial.h"
#include "tests/unit/collectives/join/session_world.h"

namespace muster::collectives::service_test {
namespace {

using base::Code;
using std::chrono::milliseconds;

const std::string kSecret(32, 's');

// The limit of open files, until it is destroyed.
class OpenFilesLimit {
 public:
  explicit OpenFilesLimit(rlim_t files) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit wanted = before_;
    wanted.rlim_cur = std::min(files, before_.rlim_max);
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &wanted), 0);
  }
  ~OpenFilesLimit() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }
  OpenFilesLimit(const OpenFilesLimit&) = delete;
  OpenFilesLimit& operator=(const OpenFilesLimit&) = delete;

 private:
  rlimit before_{};
};

// The lowest number that is free: as a limit, no file can be opened.
rlim_t lowest_free_descriptor() {
  const base::UniqueFd free(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return static_cast<rlim_t>(free.get());
}

milliseconds processor_time() {
  timespec used{};
  EXPECT_EQ(::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used), 0);
  return std::chrono::duration_cast<milliseconds>(std::chrono::seconds(used.tv_sec) +
                                                  std::chrono::nanoseconds(used.tv_nsec));
}

// The caller's half, until it is done.
bool shakes_hands(Handshake& caller) {
  const auto end = std::chrono::steady_clock::now() + kTestDeadline;
  while (std::chrono::steady_clock::now() < end) {
    const auto turn = caller.step();
    if (!turn.ok()) return false;
    if (*turn == Handshake::Turn::kDone) return true;
    pollfd slot{caller.fd(), static_cast<short>(*turn == Handshake::Turn::kWantsRead ? POLLIN : POLLOUT), 0};
    ::poll(&slot, 1, 100);
  }
  return false;
}

class ServiceTest : public testing::Test {
 protected:
  ServiceTest() {
    ServiceConfig config;
    config.listener = base::listen_on(address_, 0, 1024).value();
    port_ = base::local_port(config.listener.get()).value();
    service_ = Service::start(std::move(config)).value();
    service_->set_secret(kSecret);
  }

  // Rank 1's end of a connection for this communicator.
  base::UniqueFd call(const std::string& communicator) const {
    auto called = dial(address_, port_, kSecret, {LinkRequest::Purpose::kLink, 1, 0, communicator},
                       std::chrono::steady_clock::now() + kTestDeadline);
    EXPECT_TRUE(called.ok()) << called.status();
    return called.ok() ? called->take_socket() : base::UniqueFd();
  }
  static base::UniqueFd socket() { return base::UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); }
  void connect(const base::UniqueFd& socket) const {
    const base::SockAddr to = base::make_sockaddr(address_, port_);
    ASSERT_EQ(::connect(socket.get(), to.get(), to.size), 0);
  }
  static Handshake caller_of(base::UniqueFd socket) {
    EXPECT_TRUE(base::set_nonblocking(socket.get(), true).ok());
    return Handshake::call(std::move(socket), kSecret, {LinkRequest::Purpose::kLink, 1, 0, "one"});
  }
  // Whether the other side closes it.
  static bool is_closed(const base::UniqueFd& socket) {
    pollfd slot{socket.get(), POLLIN, 0};
    char byte = 0;
    return ::poll(&slot, 1, static_cast<int>(kTestDeadline.count())) == 1 && ::recv(socket.get(), &byte, 1, 0) <= 0;
  }

  const base::IpAddress address_ = base::IpAddress::parse("127.0.0.1").value();
  std::uint16_t port_ = 0;
  std::unique_ptr<Service> service_;
  AbortRecord abort_{};
};

TEST_F(ServiceTest, AConnectionIsTakenByItsCommunicator) {
  const base::UniqueFd socket = call("one");
  const auto taken = service_->take_link("one", 1, kTestDeadline, abort_);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(service_->take_link("one", 1, milliseconds(0), abort_).status().code(), Code::kDeadlineExceeded);
}

TEST_F(ServiceTest, WhatNobodyTookGoesWithItsCommunicator) {
  const base::UniqueFd early = call("one");
  const base::UniqueFd other = call("other");
  // Of the same thread, in the order in which they came: when the second is there, so is the first.
  ASSERT_TRUE(service_->take_link("other", 1, kTestDeadline, abort_).ok());
  service_->forget("one");
  EXPECT_TRUE(is_closed(early));
  EXPECT_TRUE(is_closed(call("one")));
  EXPECT_EQ(service_->take_link("one", 1, milliseconds(0), abort_).status().code(), Code::kDeadlineExceeded);
}

TEST_F(ServiceTest, WhatACommunicatorSharesGoesWithIt) {
  const base::FdPair pipe = base::make_pipe().value();
  ASSERT_TRUE(service_->share("one", pipe.first.get()).ok());
  ASSERT_TRUE(request_memory(service_->unix_name(), "one", kTestDeadline).ok());
  service_->forget("one");
  EXPECT_EQ(request_memory(service_->unix_name(), "one", milliseconds(50)).status().code(), Code::kDeadlineExceeded);
}

TEST_F(ServiceTest, ARankThatHasEndedIsNotWaitedFor) {
  const auto taken = service_->take_link("one", 1, kTestDeadline, abort_, [] { return true; });
  EXPECT_EQ(taken.status().code(), Code::kUnavailable) << taken.status();
  // What it had connected before counts.
  const base::UniqueFd socket = call("two");
  const auto last = service_->take_link("two", 1, kTestDeadline, abort_, [] { return true; });
  EXPECT_TRUE(last.ok()) << last.status();
}

TEST_F(ServiceTest, MemoryThatIsOfNoUseIsNotWaitedFor) {
  const auto asked = request_memory(service_->unix_name(), "one", kTestDeadline, [] { return true; });
  EXPECT_EQ(asked.status().code(), Code::kUnavailable) << asked.status();
}

// They cost nothing, and need no secret: 256 of them, made anew every few seconds, kept all ranks out.
TEST_F(ServiceTest, SilentConnectionsGiveWayToOthers) {
  const OpenFilesLimit enough(2048);
  std::vector<base::UniqueFd> silent;
  for (int i = 0; i < 256; ++i) {
    silent.push_back(socket());
    connect(silent.back());
  }
  const auto called = dial(address_, port_, kSecret, {LinkRequest::Purpose::kLink, 1, 0, "one"},
                           std::chrono::steady_clock::now() + std::chrono::seconds(3));
  ASSERT_TRUE(called.ok()) << called.status();
  EXPECT_TRUE(service_->take_link("one", 1, kTestDeadline, abort_).ok());
  EXPECT_TRUE(is_closed(silent.front())) << "the oldest one";
}

// poll() refuses more descriptors than the limit, whichever they are.
TEST_F(ServiceTest, GoesOnWhereTheProgramLowersItsLimitOfOpenFiles) {
  std::vector<base::UniqueFd> silent;
  for (int i = 0; i < 8; ++i) {
    silent.push_back(socket());
    connect(silent.back());
  }
  base::UniqueFd made = socket();
  connect(made);
  const base::UniqueFd last = call("last");  // so all before it have been accepted
  const OpenFilesLimit few(6);
  service_->wake();
  Handshake caller = caller_of(std::move(made));
  EXPECT_TRUE(shakes_hands(caller));
  EXPECT_TRUE(service_->take_link("one", 1, kTestDeadline, abort_).ok());
}

TEST_F(ServiceTest, WithoutDescriptorsItPausesAndGoesOn) {
  base::UniqueFd early = socket();
  {
    const OpenFilesLimit none(lowest_free_descriptor());
    connect(early);
    const milliseconds before = processor_time();
    pollfd nothing{early.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&nothing, 1, 500), 0) << "it cannot be accepted";
    EXPECT_LT((processor_time() - before).count(), 250) << "of 500 ms";
  }
  Handshake caller = caller_of(std::move(early));
  EXPECT_TRUE(shakes_hands(caller));
  EXPECT_TRUE(service_->take_link("one", 1, kTestDeadline, abort_).ok());
}

}  // namespace
}  // namespace muster::collectives::service_test
