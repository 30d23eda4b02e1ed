// launch.py's command lines.
#include "cli/foreign/dmlc.h"

#include <cstdio>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/strings.h"
#include "cli/options/dmlc_job.h"
#include "tests/unit/cli/options/parsed.h"

namespace muster::cli::dmlc_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ParsedHvdrun dmlc(const Words& words) {
  return parse_dmlc(words, {}, {.build_id = "0123456789abcdef", .system_config = "/nowhere/config.yaml"});
}

std::string hosts_of(std::string_view content) {
  const auto hosts = parse_dmlc_hosts(content, "hosts");
  if (!hosts.ok()) return hosts.status().message();
  std::vector<std::string> shown;
  for (const auto& host : *hosts) shown.push_back(fmt::format("{}@{}:{}", host.user, host.name, host.port));
  return base::join(shown, " ");
}

TEST(DmlcHosts, NameOrNameAndPort) {
  EXPECT_EQ(hosts_of("d1\n\n d2:2222 \nd3 slots=4\nme@d4:22  # the last\n# none\n"), "@d1:0 @d2:2222 @d3:0 me@d4:22");
  EXPECT_EQ(hosts_of(""), "");
  EXPECT_EQ(hosts_of("d1\n-x\n"), "hosts:2: '-x' is no host: write name, or name:SSHPORT");
  EXPECT_THAT(hosts_of("d1:x"), HasSubstr("hosts:1: 'd1:x' is no host"));
  EXPECT_THAT(hosts_of("d1:70000"), HasSubstr("is no host"));
  EXPECT_THAT(hosts_of("@d1"), HasSubstr("is no host"));
}

class DmlcLine : public ::testing::Test {
 protected:
  DmlcLine() { std::ofstream(path_) << "d1\nd2:2222\n"; }
  ~DmlcLine() override { std::remove(path_.c_str()); }

  const std::string path_ = ::testing::TempDir() + fmt::format("/muster-dmlc-{}", ::getpid());
};

TEST_F(DmlcLine, IsTakenAsItIs) {
  const auto parsed =
      dmlc({"python", "/opt/mxnet/tools/launch.py", "-n", "2", "-s", "1", "-H", path_, "--launcher", "ssh", "--env",
            "PYTHONPATH", "--env-server", "OMP_NUM_THREADS:3", "--env-worker", "A:http://x", "python cifar10_dist.py"});
  ASSERT_FALSE(parsed.exit_code) << parsed.text;
  const HvdrunOptions& options = parsed.options;
  EXPECT_THAT(options.request.job.command, ElementsAre("bash", "-c", "python cifar10_dist.py"));
  EXPECT_EQ(options.request.dmlc->counts.workers, 2);
  EXPECT_EQ(options.request.dmlc->counts.servers, 1);
  EXPECT_THAT(options.request.dmlc->counts.server_environment, ElementsAre("OMP_NUM_THREADS=3"));
  EXPECT_THAT(options.request.dmlc->counts.worker_environment, ElementsAre("A=http://x"));
  EXPECT_THAT(options.request.job.environment.named, ElementsAre("PYTHONPATH"));
  ASSERT_EQ(options.request.job.placement.hosts.size(), 2u);
  EXPECT_EQ(options.request.job.placement.hosts[1].port, 2222);
  EXPECT_EQ(options.request.job.runtime, model::Runtime::kMxnet);
}

TEST_F(DmlcLine, ServersMayHaveHostsOfTheirOwn) {
  auto parsed = dmlc({"-n", "1", "-H", path_, "-SH", path_, "--timeout", "5", "python", "x.py", "-n", "3"});
  ASSERT_FALSE(parsed.exit_code) << parsed.text;
  EXPECT_EQ(parsed.options.request.dmlc->server_hosts.size(), 2u);
  EXPECT_EQ(parsed.options.request.job.timeout, std::chrono::seconds(5));
  EXPECT_THAT(parsed.options.request.job.command, ElementsAre("bash", "-c", "python x.py -n 3"));
}

TEST_F(DmlcLine, BecomesRoles) {
  auto parsed = dmlc({"-n", "2", "-s", "1", "-H", path_, "x"});
  ASSERT_TRUE(settle_dmlc(parsed.options.request, false).ok());
  const model::JobSpec& job = parsed.options.request.job;
  EXPECT_TRUE(job.is_dmlc);
  EXPECT_EQ(job.placement.np, 4);
  std::vector<std::string> hosts;
  for (const model::RankPlace& place : job.places) hosts.push_back(place.host);
  EXPECT_THAT(hosts, ElementsAre("d1", "d1", "d2", "d1"));
}

TEST_F(DmlcLine, P3AndLocal) {
  const auto parsed = dmlc({"-n", "2", "--launcher", "local", "--p3", "x"});
  ASSERT_FALSE(parsed.exit_code) << parsed.text;
  EXPECT_EQ(parsed.options.request.job.placement.hosts[0].name, "localhost");
  EXPECT_THAT(parsed.options.request.job.environment.named,
              ElementsAre("DMLC_PS_VAN_TYPE=p3", "DMLC_PS_WATER_MARK=10"));
}

TEST_F(DmlcLine, SyncsTheCurrentDirectory) {
  const auto parsed = dmlc({"-n", "1", "-H", path_, "--sync-dst-dir", "/tmp/job", "x"});
  ASSERT_FALSE(parsed.exit_code) << parsed.text;
  EXPECT_THAT(parsed.options.request.job.stages, ElementsAre(model::StagedPath{".", "/tmp/job"}));
  EXPECT_EQ(parsed.options.request.job.workdir, "/tmp/job");
}

TEST_F(DmlcLine, Mistakes) {
  const std::pair<Words, const char*> table[] = {
      {{"x"}, "muster dmlc: how many workers? Say it with -n N"},
      {{"-n", "0", "x"}, "-n must be a number from 1"},
      {{"-n", "1", "-s", "0", "x"}, "rabit's tracker"},
      {{"-n", "1"}, "no command is given"},
      {{"-n", "1", "-H", "/nowhere/hosts", "x"}, "-H: "},
      {{"-n", "1", "--launcher", "mpi", "x"}, "--launcher mpi: the hosts are those of -H"},
      {{"-n", "1", "--env-server", "A", "x"}, "--env-server takes NAME:VALUE, not 'A'"},
      {{"-n", "1", "--env-worker", "A B:1", "x"}, "is not the name of an environment variable"},
      {{"-n", "1", "--byteps-launch", "x"}, "BytePS starts its processes in its own way"},
      {{"-n", "1", "--sync-dst-dir", "here", "x"}, "--sync-dst-dir takes an absolute path, not 'here'"},
      {{"-n", "1", "-np", "4", "x"}, "unknown option -np"},
      {{"-n", "1", "-SH", path_, "x"}, "name the hosts of the workers by -H as well"}};
  for (const auto& [words, part] : table) {
    const auto parsed = dmlc(words);
    EXPECT_EQ(parsed.exit_code, 2);
    EXPECT_THAT(parsed.text, HasSubstr(part));
  }
}

TEST(DmlcOptions, BelongToTheRuntime) {
  EXPECT_THAT(parse({"--num-workers", "2", "x"}).text, HasSubstr("--num-workers belongs to --runtime mxnet"));
  EXPECT_THAT(parse({"--runtime", "mxnet", "--num-servers", "2", "x"}).text,
              HasSubstr("the number of workers is missing: add --num-workers N"));
  EXPECT_THAT(parse({"--runtime", "mxnet", "--num-workers", "2", "-np", "3", "x"}).text,
              HasSubstr("-np: --num-workers and --num-servers set the number of ranks"));
}

}  // namespace
}  // namespace muster::cli::dmlc_test
