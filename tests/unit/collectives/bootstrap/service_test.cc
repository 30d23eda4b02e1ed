// Connections that come for communicators: taken, forgotten, or never made.
#include "collectives/bootstrap/service.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/net.h"
#include "collectives/transport/dial.h"
#include "tests/unit/collectives/bootstrap/session_world.h"

namespace muster::collectives::service_test {
namespace {

using base::Code;
using std::chrono::milliseconds;

const std::string kSecret(32, 's');

class ServiceTest : public testing::Test {
 protected:
  ServiceTest() {
    ServiceConfig config;
    config.listener = base::listen_on(address_, 0, 16).value();
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
  ASSERT_TRUE(ask_for_memory(service_->unix_name(), "one", kTestDeadline).ok());
  service_->forget("one");
  EXPECT_EQ(ask_for_memory(service_->unix_name(), "one", milliseconds(50)).status().code(), Code::kDeadlineExceeded);
}

TEST_F(ServiceTest, ARankThatHasEndedIsNotWaitedFor) {
  const auto taken = service_->take_link("one", 1, kTestDeadline, abort_, [] { return true; });
  EXPECT_EQ(taken.status().code(), Code::kUnavailable) << taken.status();
  // What it had connected before counts.
  const base::UniqueFd socket = call("two");
  const auto last = service_->take_link("two", 1, kTestDeadline, abort_, [] { return true; });
  EXPECT_TRUE(last.ok()) << last.status();
}

}  // namespace
}  // namespace muster::collectives::service_test
