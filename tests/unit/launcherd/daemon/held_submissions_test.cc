#include "launcherd/daemon/held_submissions.h"

#include <gtest/gtest.h>

namespace muster::launcherd::held_submissions_test {
namespace {

using namespace std::chrono_literals;

v1::SubmitRequest request_of(int size) {
  v1::SubmitRequest request;
  request.mutable_spec()->add_command("true");
  request.mutable_spec()->set_working_directory("/");
  request.mutable_spec()->set_size(size);
  return request;
}

class HeldSubmissionsTest : public ::testing::Test {
 protected:
  HeldSubmissions held(std::chrono::milliseconds patience) {
    return {loop_, &hosts_,
            [this](const v1::SubmitRequest& request, const std::string& user, Reply<v1::SubmitResponse>) {
              EXPECT_EQ(user, "ann");
              admitted_.push_back(request.spec().size());
              loop_.stop();
            },
            patience};
  }
  void add(HeldSubmissions& held, int size) {
    held.add(request_of(size), "ann",
             [this](const base::Result<v1::SubmitResponse>& reply) { refused_.push_back(reply.status()); });
  }

  base::Loop loop_;
  HostTable hosts_{{{.name = "n1", .slots = 2}, {.name = "n2"}, {.name = "n3"}}};
  std::vector<int> admitted_;
  std::vector<base::Status> refused_;
};

TEST_F(HeldSubmissionsTest, WhatDependsOnACountWaitsForIt) {
  HeldSubmissions held = this->held(1h);
  add(held, 4);
  EXPECT_EQ(admitted_, std::vector<int>{4});  // fits on the slots that are known
  add(held, 5);
  add(held, 9);
  EXPECT_EQ(held.size(), 2u);
  hosts_.set_gpus("n2", 2);
  held.recheck();
  EXPECT_EQ(admitted_, (std::vector<int>{4, 5}));
  hosts_.set_gpus("n3", 2);
  held.recheck();
  EXPECT_EQ(admitted_, (std::vector<int>{4, 5, 9}));  // the manager refuses it by the slots that are known now
  EXPECT_EQ(held.size(), 0u);
}

TEST_F(HeldSubmissionsTest, NobodyWaitsForLong) {
  HeldSubmissions held = this->held(20ms);
  add(held, 9);
  EXPECT_EQ(held.size(), 1u);
  loop_.run();
  EXPECT_EQ(admitted_, std::vector<int>{9});
}

TEST_F(HeldSubmissionsTest, WhoComesLaterWaitsAsLong) {
  HeldSubmissions held = this->held(200ms);
  add(held, 9);
  const base::Timer later = loop_.after(100ms, [&] { add(held, 8); });
  loop_.run();
  EXPECT_EQ(admitted_, std::vector<int>{9});
  ASSERT_EQ(held.size(), 1u);
  loop_.run();
  EXPECT_EQ(admitted_, (std::vector<int>{9, 8}));
}

TEST_F(HeldSubmissionsTest, WhoLeavesAnswersAll) {
  HeldSubmissions held = this->held(1h);
  add(held, 9);
  held.refuse_all({base::Code::kUnavailable, "launcherd is shutting down"});
  ASSERT_EQ(refused_.size(), 1u);
  EXPECT_EQ(refused_.front().code(), base::Code::kUnavailable);
  EXPECT_EQ(held.size(), 0u);
}

}  // namespace
}  // namespace muster::launcherd::held_submissions_test
