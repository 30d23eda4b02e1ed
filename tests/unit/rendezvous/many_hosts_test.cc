// The stores of a job of a thousand hosts in one process, over real sockets: what each host's agent has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "base/descriptor_limit.h"
#include "rendezvous/horovod_cache.h"
#include "rendezvous/horovod_origin.h"
#include "rendezvous/horovod_tcp_upstream.h"
#include "rendezvous/host_fence.h"
#include "rendezvous/host_meetings.h"
#include "tests/unit/rendezvous/loop_peer.h"

namespace muster::rendezvous::many_hosts_test {
namespace {

void allow(const ConnectionEnds&, const std::function<void(bool)>& done) {
  done(true);
}

// One host. Host 0 has the store. A host with children serves them.
class TreeHost {
 public:
  TreeHost(base::Loop& loop, HostTree tree, int own, std::uint16_t parent_port) : own_(own) {
    if (own == 0) {
      source_.emplace(store_);
      keys_.emplace(store_);
    } else {
      upstream_.emplace(loop, loopback(), parent_port, allow);
      cache_.emplace(*upstream_);
    }
    meetings_.emplace(
        tree, own,
        HostMeetings::Links{
            .to_parent = [this](auto name, auto number, auto part) { upstream_->send_entry(name, number, part); },
            .to_child = [this](int child, auto name, auto number,
                               auto part) { origin_->send_met(child, name, number, part); }});
    if (tree.has_children(own)) {
      base::UniqueFd listening = base::listen_any(0, 128).value();
      port_ = *base::local_port(listening.get());
      HorovodSource& source = own == 0 ? static_cast<HorovodSource&>(*source_) : *cache_;
      origin_.emplace(loop, std::move(listening), source, allow);
      origin_->use_meetings(*meetings_);
    }
    if (keys_) keys_->use_meetings(*meetings_);
    if (cache_) cache_->use_meetings(*meetings_);
    if (upstream_) upstream_->use_meetings(*meetings_);
    fence_.emplace(loop, keys(), own);
  }

  HorovodKeys& keys() { return own_ == 0 ? static_cast<HorovodKeys&>(*keys_) : *cache_; }
  HostFence& fence() { return *fence_; }
  std::uint16_t port() const { return port_; }
  HorovodOriginCounts counts() const { return origin_ ? origin_->counts() : HorovodOriginCounts(); }

 private:
  const int own_;
  HorovodStore store_{{}};
  std::optional<HorovodStoreSource> source_;
  std::optional<HorovodStoreKeys> keys_;
  std::optional<HostMeetings> meetings_;
  std::optional<HorovodTcpUpstream> upstream_;
  std::optional<HorovodCache> cache_;
  std::optional<HorovodOrigin> origin_;
  std::optional<HostFence> fence_;
  std::uint16_t port_ = 0;
};

class ManyHostsTest : public ::testing::Test {
 protected:
  static constexpr int kHosts = 1'000;
  static constexpr HostTree kTree{.hosts = kHosts, .fanout = 32};

  ManyHostsTest() {
    base::raise_descriptor_limit();
    for (int i = 0; i < kHosts; ++i) {
      const std::uint16_t parent = i == 0 ? 0 : hosts_[static_cast<std::size_t>(kTree.parent(i))]->port();
      hosts_.push_back(std::make_unique<TreeHost>(loop_, kTree, i, parent));
    }
  }
  void expect_links() const {
    for (const auto& host : hosts_) EXPECT_LE(host->counts().links, 32U);
  }

  base::Loop loop_;
  std::vector<std::unique_ptr<TreeHost>> hosts_;
};

TEST_F(ManyHostsTest, EveryHostGetsEveryKeyAndNoneHasMoreLinksThanTheFanout) {
  const auto keys_of = [this](int host) -> HorovodKeys& { return hosts_[static_cast<std::size_t>(host)]->keys(); };
  int put = 0;
  int told = 0;
  for (int i = 0; i < kHosts; ++i) {
    keys_of(i).put("muster", std::to_string(i), make_horovod_value("the place of rank " + std::to_string(i)),
                   [&put](const base::Status& status) { put += status.ok() ? 1 : 0; });
    keys_of(i).wait("muster", "go", [&told](const auto& value) { told += value.ok() ? 1 : 0; });
  }
  ASSERT_TRUE(run_until(
      loop_, [&] { return put == kHosts; }, std::chrono::seconds(100)));
  // A host gets this key after all others, because changes come in order.
  keys_of(0).put("muster", "go", make_horovod_value("1"), [](const base::Status&) {});
  ASSERT_TRUE(run_until(
      loop_, [&] { return told == kHosts; }, std::chrono::seconds(100)));
  for (int i = 0; i < kHosts; ++i) {
    for (int other = i % 7; other < kHosts; other += 7) {
      keys_of(i).get("muster", std::to_string(other),
                     [other](const auto& value) { ASSERT_EQ(**value, "the place of rank " + std::to_string(other)); });
    }
  }
  expect_links();
  // One put for each host, and one follow for each child.
  EXPECT_EQ(hosts_[0]->counts().requests, 999U + 32U);
  // Each key once to each child, except to the one that put it.
  EXPECT_LE(hosts_[0]->counts().changes, 32U * (kHosts + 1));
}

TEST_F(ManyHostsTest, AFenceTakesOneMessageUpAndOneDownEachLink) {
  std::vector<int> members(kHosts);
  std::iota(members.begin(), members.end(), 0);
  int met = 0;
  for (int round = 1; round <= 2; ++round) {
    for (int i = 0; i < kHosts; ++i) {
      hosts_[static_cast<std::size_t>(i)]->fence().enter("world", members, std::to_string(i),
                                                         [&met](const base::Result<HostFence::Blobs>& blobs) {
                                                           ASSERT_TRUE(blobs.ok());
                                                           if (blobs->size() == kHosts && blobs->back() == "999") ++met;
                                                         });
    }
    ASSERT_TRUE(run_until(
        loop_, [&] { return met == round * kHosts; }, std::chrono::seconds(100)))
        << met;
    expect_links();
    EXPECT_EQ(hosts_[0]->counts().requests, 32U * static_cast<unsigned>(round)) << "one for each child and fence";
    EXPECT_EQ(hosts_[0]->counts().changes, 0U) << "a fence uses no keys";
  }
}

}  // namespace
}  // namespace muster::rendezvous::many_hosts_test
