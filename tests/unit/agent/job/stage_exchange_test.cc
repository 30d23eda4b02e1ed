#include "agent/job/stage_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/muster/v1/stage_broadcast.pb.h"
#include "tests/unit/agent/stage/block_fixture.h"

namespace muster::agent::stage_exchange_test {
namespace {

using namespace block_fixture;
using ::testing::HasSubstr;

class StageExchangeTest : public BlockFolderTest {
 protected:
  struct Host {
    std::shared_ptr<BlockTable> table;
    std::vector<v1::StageReport> reports{};
    std::string error{};
    std::unique_ptr<StageExchange> exchange{};
  };

  // Starts a host that takes its blocks from `sources`. The loop stops when a report says that it is complete.
  std::uint16_t start(Host& host, const std::vector<BlockSource>& sources) {
    StageExchange::Parts parts{.token = 7, .table = host.table, .sources = sources};
    parts.key = {"stage", std::string(32, 's')};
    parts.server = std::shared_ptr<BlockServer>(*BlockServer::listen(parts.key));
    const std::uint16_t port = parts.server->port();
    auto started = StageExchange::start(loop_, parts, [this, &host](const v1::StageAnswer& answer) {
      v1::StageBroadcastAnswer parsed;
      EXPECT_EQ(answer.id(), 0U);
      EXPECT_TRUE(parsed.ParseFromString(answer.broadcast()));
      host.reports.push_back(parsed.report());
      host.error = answer.error();
      for (const v1::StageBlock& want : parsed.report().wants()) {
        const BlockId id{static_cast<std::uint32_t>(want.entry()), want.block()};
        EXPECT_TRUE(host.table->put(id, block_of(text_, want.block())).ok());
      }
      if (parsed.report().is_complete() || !host.error.empty()) loop_.stop();
    });
    EXPECT_TRUE(started.ok()) << started.status();
    host.exchange = *std::move(started);
    return port;
  }
  void run() {
    const base::Timer patience = loop_.after(std::chrono::seconds(30), [this] { loop_.stop(); });
    loop_.run();
  }

  const std::string text_ = "0123456789abcdefghijxyz";
  base::Loop loop_;
};

TEST_F(StageExchangeTest, BlocksGoFromTheLauncherOverOneHostToTheNext) {
  Host first{table("a", {text_})};
  Host second{table("b", {text_})};
  const std::uint16_t port = start(first, {});
  start(second, {{"n1", *base::IpAddress::parse("127.0.0.1"), port}});
  list(*first.table, {text_});
  list(*second.table, {text_});
  while (!first.table->is_complete() || !second.table->is_complete()) run();
  while (second.reports.empty() || !second.reports.back().is_complete()) run();
  EXPECT_EQ(content("a/f0"), text_);
  EXPECT_EQ(content("b/f0"), text_);
  EXPECT_EQ(second.reports.back().token(), 7U);
  EXPECT_EQ(second.reports.back().peer_bytes(), text_.size());
  EXPECT_EQ(second.reports.back().done_blocks(), 3U);
  EXPECT_EQ(second.reports.back().changed_files(), 1U);
}

TEST_F(StageExchangeTest, ItsEndEndsBothThreads) {
  Host host{table("a", {text_})};
  start(host, {});
  const std::weak_ptr<BlockTable> table = std::exchange(host.table, nullptr);
  EXPECT_FALSE(table.expired());
  host.exchange.reset();
  EXPECT_TRUE(table.expired());  // no thread holds it
  EXPECT_TRUE(host.reports.empty());
}

}  // namespace
}  // namespace muster::agent::stage_exchange_test
