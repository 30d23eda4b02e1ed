#include "proto/job_spec_convert.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/convert.h"

namespace muster::proto::job_spec_convert_test {
namespace {

using base::Code;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

v1::SubmitRequest plain_request() {
  v1::SubmitRequest request;
  request.mutable_spec()->add_command("true");
  request.mutable_spec()->set_working_directory("/tmp");
  return request;
}

TEST(JobSpecConvert, WhatIsNotSaidHasItsDefault) {
  const auto submission = submission_of(plain_request());
  ASSERT_TRUE(submission.ok()) << submission.status();
  const model::JobSpec& job = submission->job;
  EXPECT_THAT(job.command, ElementsAre("true"));
  EXPECT_EQ(job.umask, 022u);
  EXPECT_EQ(job.placement.np, 0);
  EXPECT_EQ(job.start_timeout, std::chrono::seconds(30));
  EXPECT_EQ(job.kill_grace, std::chrono::seconds(5));
  EXPECT_EQ(job.lease, std::chrono::minutes(10));
  EXPECT_FALSE(job.timeout.has_value());
  EXPECT_EQ(job.role, "default");
  EXPECT_TRUE(job.environment.only_named);
  EXPECT_EQ(submission->retention, std::chrono::hours(24 * 7));
  EXPECT_EQ(submission->requests.contain, "auto");
  EXPECT_TRUE(submission->requests.hold);
  EXPECT_FALSE(submission->requests.deadline.has_value());
}

model::JobSpec full_job() {
  model::JobSpec job;
  job.command = {"python3", "{rank}"};
  job.expand = {1};
  job.workdir = "/work";
  job.umask = 077;
  job.placement = {.hosts = {{.name = "n1", .user = "me", .port = 22, .slots = 4}, {.name = "fd00::2"}},
                   .np = 3,
                   .ranks_per_node = 2,
                   .oversubscribe = true,
                   .map_by = model::MapBy::kNode};
  job.places = {{.rank = 0, .host = "n1", .cpus = {0, 1}, .gpus = {"GPU-1"}},
                {.rank = 1, .host = "fd00::2"},
                {.rank = 2, .host = "n1"}};
  job.pinning = {.bind_to = model::BindTo::kList,
                 .cpu_lists = {{0, 1, 2, 8}, {3}},
                 .hyperthreads = 2,
                 .reserved_cores = {9, 52},
                 .gpu_bind = model::GpuBind::kTile,
                 .gpu_order = model::GpuOrder::kList,
                 .gpu_list = {3, 0},
                 .gpus_per_rank = 2,
                 .share_gpu = true,
                 .gpus = 6,
                 .tiles = 2};
  job.container = {.image = "a.sif", .program = "singularity", .args = {"--cleanenv", "-B", "/a b"}};
  job.limits = {{.resource = 7, .soft = 5, .hard = model::Ulimit::kUnlimited}};
  job.on_exit = model::OnExit::kWait;
  job.start_timeout = std::chrono::milliseconds(1'500);
  job.min_hosts = 3;
  job.timeout = std::chrono::milliseconds(1);
  job.kill_grace = std::chrono::milliseconds(0);
  job.lease = std::chrono::seconds(60);
  job.max_restarts = 3;
  job.end_signal = {.signo = 10, .ahead = std::chrono::minutes(2)};
  job.role = "trainer";
  job.network_interfaces = {"eth0"};
  job.network = *base::IpNetwork::parse("10.0.0.0/8");
  job.torch_agent_store = true;
  job.runtime = model::Runtime::kMpi;
  return job;
}

TEST(JobSpecConvert, AJobComesBackAsItWas) {
  const model::JobSpec job = full_job();
  const auto back = job_spec_of(to_proto(job));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(to_proto(*back).SerializeAsString(), to_proto(job).SerializeAsString());
  EXPECT_EQ(back->command, job.command);
  EXPECT_EQ(back->expand, job.expand);
  EXPECT_EQ(back->umask, job.umask);
  EXPECT_EQ(back->placement.hosts, job.placement.hosts);
  EXPECT_EQ(back->placement.np, 3);
  EXPECT_EQ(back->placement.map_by, model::MapBy::kNode);
  ASSERT_EQ(back->places.size(), 3u);
  EXPECT_EQ(back->places[1].host, "fd00::2");
  EXPECT_THAT(back->places[0].gpus, ElementsAre("GPU-1"));
  EXPECT_EQ(back->pinning, job.pinning);
  EXPECT_EQ(back->container, job.container);
  EXPECT_EQ(back->limits, job.limits);
  EXPECT_EQ(back->timeout, job.timeout);
  EXPECT_EQ(back->runtime, job.runtime);
  EXPECT_EQ(back->kill_grace, job.kill_grace);
  ASSERT_TRUE(back->end_signal);
  EXPECT_EQ(back->end_signal->signo, 10);
  EXPECT_EQ(back->end_signal->ahead, std::chrono::minutes(2));
  EXPECT_EQ(back->network->str(), "10.0.0.0/8");
}

TEST(JobSpecConvert, VariablesAreTheOnlyPlaceOfValues) {
  v1::SubmitRequest request = plain_request();
  v1::EnvVar& variable = *request.add_environment();
  variable.set_name("TOKEN");
  variable.set_value("a=b");
  const auto submission = submission_of(request);
  ASSERT_TRUE(submission.ok());
  EXPECT_THAT(submission->job.environment.named, ElementsAre("TOKEN=a=b"));
  const v1::SubmitRequest stored = without_values(request);
  EXPECT_EQ(stored.environment(0).name(), "TOKEN");
  EXPECT_EQ(stored.SerializeAsString().find("a=b"), std::string::npos);
}

TEST(JobSpecConvert, WishesAreRead) {
  v1::JobSpec spec;
  spec.set_contain("pidns");
  spec.set_on_launcher_loss(v1::ON_LAUNCHER_LOSS_KILL);
  spec.mutable_deadline()->set_seconds(1'700'000'000);
  const auto requests = launch_requests_of(spec);
  ASSERT_TRUE(requests.ok()) << requests.status();
  EXPECT_EQ(requests->contain, "pidns");
  EXPECT_FALSE(requests->hold);
  EXPECT_EQ(requests->deadline, base::WallTime(std::chrono::seconds(1'700'000'000)));
}

struct Mistake {
  const char* field;
  std::function<void(v1::SubmitRequest&)> make;
};

v1::WantedHost& add_host(v1::SubmitRequest& request, const std::string& name, std::initializer_list<int> ranks = {}) {
  v1::WantedHost& host = *request.mutable_spec()->add_hosts();
  host.set_name(name);
  for (const int rank : ranks) host.add_ranks()->set_rank(rank);
  return host;
}

const Mistake kMistakes[] = {
    {"spec", [](auto& r) { r.clear_spec(); }},
    {"spec.command", [](auto& r) { r.mutable_spec()->clear_command(); }},
    {"spec.command", [](auto& r) { r.mutable_spec()->set_command(0, ""); }},
    {"spec.command", [](auto& r) { r.mutable_spec()->add_command(std::string("a\0b", 3)); }},
    {"spec.command", [](auto& r) { r.mutable_spec()->add_command(std::string(2 << 20, 'x')); }},
    {"spec.expand", [](auto& r) { r.mutable_spec()->add_expand(1); }},
    {"spec.working_directory", [](auto& r) { r.mutable_spec()->set_working_directory("tmp"); }},
    {"spec.umask", [](auto& r) { r.mutable_spec()->set_umask(01000); }},
    {"spec.size", [](auto& r) { r.mutable_spec()->set_size(-1); }},
    {"spec.size", [](auto& r) { r.mutable_spec()->set_size(1'000'001); }},
    {"spec.ranks_per_host", [](auto& r) { r.mutable_spec()->set_ranks_per_host(-1); }},
    {"spec.hosts.name", [](auto& r) { add_host(r, "-oProxyCommand=x"); }},
    {"spec.hosts.name", [](auto& r) { add_host(r, ""); }},
    {"spec.hosts.user", [](auto& r) { add_host(r, "n1").set_user("a b"); }},
    {"spec.hosts.port", [](auto& r) { add_host(r, "n1").set_port(70'000); }},
    {"spec.hosts.slots", [](auto& r) { add_host(r, "n1").set_slots(-1); }},
    {"spec.hosts.ranks",
     [](auto& r) {
       add_host(r, "n1", {0, 2});
     }},
    {"spec.hosts.ranks",
     [](auto& r) {
       add_host(r, "n1", {0, 0});
     }},
    {"spec.hosts.ranks", [](auto& r) { add_host(r, "n1", {0}), add_host(r, "n2"); }},
    {"spec.hosts.ranks", [](auto& r) { add_host(r, "n1", {0}), r.mutable_spec()->set_size(2); }},
    {"spec.hosts.ranks.cpus", [](auto& r) { add_host(r, "n1", {0}).mutable_ranks(0)->add_cpus(-1); }},
    {"spec.hosts.ranks.gpus", [](auto& r) { add_host(r, "n1", {0}).mutable_ranks(0)->add_gpus("$(x)"); }},
    {"spec.bind_to", [](auto& r) { r.mutable_spec()->set_bind_to("shared"); }},
    {"spec.bind_to", [](auto& r) { r.mutable_spec()->set_bind_to("list:0-7:"); }},
    {"spec.bind_to", [](auto& r) { r.mutable_spec()->set_bind_to("list:0-65535:0"); }},
    {"spec.gpu_bind", [](auto& r) { r.mutable_spec()->set_gpu_bind("two"); }},
    {"spec.container.image", [](auto& r) { r.mutable_spec()->mutable_container()->add_args("a"); }},
    {"spec.container.args",
     [](auto& r) {
       r.mutable_spec()->mutable_container()->set_image("i");
       for (int i = 0; i < 20; ++i) r.mutable_spec()->mutable_container()->add_args(std::string(4000, 'x'));
     }},
    {"spec.depth", [](auto& r) { r.mutable_spec()->set_depth(-1); }},
    {"spec.hyperthreads", [](auto& r) { r.mutable_spec()->set_hyperthreads(65); }},
    {"spec.reserve_cores", [](auto& r) { r.mutable_spec()->set_reserve_cores("0;1"); }},
    {"spec.gpu_order", [](auto& r) { r.mutable_spec()->set_gpu_order("1,1"); }},
    {"spec.gpu_tiles", [](auto& r) { r.mutable_spec()->set_gpu_tiles("6"); }},
    {"spec.gpus_per_rank", [](auto& r) { r.mutable_spec()->set_gpus_per_rank(-1); }},
    {"spec.gpus_per_rank", [](auto& r) { r.mutable_spec()->set_gpus_per_rank(1025); }},
    {"spec.contain", [](auto& r) { r.mutable_spec()->set_contain("jail"); }},
    {"spec.runtime", [](auto& r) { r.mutable_spec()->set_runtime("ray"); }},
    {"spec.on_exit", [](auto& r) { r.mutable_spec()->set_on_exit(static_cast<v1::OnExit>(9)); }},
    {"spec.on_launcher_loss",
     [](auto& r) { r.mutable_spec()->set_on_launcher_loss(static_cast<v1::OnLauncherLoss>(9)); }},
    {"spec.min_hosts", [](auto& r) { r.mutable_spec()->set_min_hosts(2); }},  // launcherd's queue gives the hosts
    {"spec.min_hosts", [](auto& r) { r.mutable_spec()->set_min_hosts(-1); }},
    {"spec.start_timeout", [](auto& r) { r.mutable_spec()->mutable_start_timeout()->set_seconds(0); }},
    {"spec.kill_grace", [](auto& r) { r.mutable_spec()->mutable_kill_grace()->set_seconds(-1); }},
    {"spec.timeout", [](auto& r) { r.mutable_spec()->mutable_timeout()->set_seconds(1LL << 60); }},
    {"spec.lease", [](auto& r) { r.mutable_spec()->mutable_lease()->set_nanos(2'000'000'000); }},
    {"spec.end_signal.signal", [](auto& r) { r.mutable_spec()->mutable_end_signal(); }},
    {"spec.end_signal.signal", [](auto& r) { r.mutable_spec()->mutable_end_signal()->set_signal(65); }},
    {"spec.max_restarts", [](auto& r) { r.mutable_spec()->set_max_restarts(-1); }},
    {"spec.limits.resource", [](auto& r) { r.mutable_spec()->add_limits()->set_resource(99); }},
    {"spec.limits", [](auto& r) { r.mutable_spec()->add_limits()->set_soft(1); }},
    {"spec.network_interfaces", [](auto& r) { r.mutable_spec()->add_network_interfaces(""); }},
    {"spec.network", [](auto& r) { r.mutable_spec()->set_network("10.0.0.0/99"); }},
    {"spec.role", [](auto& r) { r.mutable_spec()->set_role("a\nb"); }},
    {"spec.deadline", [](auto& r) { r.mutable_spec()->mutable_deadline()->set_seconds(-5); }},
    {"request_id", [](auto& r) { r.set_request_id(std::string(129, 'x')); }},
    {"name", [](auto& r) { r.set_name("a\x1b[2J"); }},
    {"labels", [](auto& r) { r.add_labels(); }},
    {"labels.value",
     [](auto& r) { r.add_labels()->set_name("a"), r.mutable_labels(0)->set_value(std::string(257, 'x')); }},
    {"environment", [](auto& r) { r.add_environment()->set_name("A=B"); }},
    {"environment", [](auto& r) { r.add_environment()->set_name(""); }},
    {"environment",
     [](auto& r) {
       r.add_environment()->set_name("A"), r.mutable_environment(0)->set_value(std::string(1 << 20, 'x'));
     }},
    {"retention", [](auto& r) { r.mutable_retention()->set_seconds(-1); }},
};

TEST(JobSpecConvert, AMistakeIsNamedByItsField) {
  for (const Mistake& mistake : kMistakes) {
    v1::SubmitRequest request = plain_request();
    mistake.make(request);
    const auto refused = submission_of(request);
    ASSERT_FALSE(refused.ok()) << mistake.field;
    EXPECT_EQ(refused.status().code(), Code::kInvalidArgument) << refused.status();
    EXPECT_THAT(refused.status().message(), StartsWith(std::string(mistake.field) + ":"));
    EXPECT_EQ(refused.status().message().find('\n'), std::string::npos);
  }
}

TEST(JobSpecConvert, ThePlaceInTheQueueIsRead) {
  v1::SubmitRequest request = plain_request();
  request.add_after()->set_job("k7");
  request.add_after()->set_job("abcdefgh");
  request.mutable_after(1)->set_condition(v1::DEPENDENCY_CONDITION_ANY);
  request.set_notify("mail me");
  request.mutable_array()->add_elements()->set_last(9);
  request.mutable_array()->set_most_at_once(4);
  const auto submission = submission_of(request);
  ASSERT_TRUE(submission.ok()) << submission.status();
  ASSERT_EQ(submission->after.size(), 2u);
  EXPECT_EQ(submission->after[0].condition, model::AfterEnd::kOk);
  EXPECT_EQ(submission->after[1].condition, model::AfterEnd::kAny);
  EXPECT_EQ(submission->notify, "mail me");
  EXPECT_EQ(submission->array, (model::ArraySpec{{{0, 9}}, 4}));
  EXPECT_FALSE(submission_of(plain_request())->array);
  const v1::JobDependency sent = to_proto(model::JobDependency{*base::JobId::parse("abcdefgh"), model::AfterEnd::kAny});
  EXPECT_EQ(sent.job(), "abcdefgh");
  EXPECT_EQ(sent.condition(), v1::DEPENDENCY_CONDITION_ANY);
}

TEST(JobSpecConvert, AMistakeAboutTheQueueIsNamedByItsField) {
  const auto refused = [](const std::function<void(v1::SubmitRequest&)>& change) {
    v1::SubmitRequest request = plain_request();
    change(request);
    const auto submission = submission_of(request);
    EXPECT_EQ(submission.status().code(), Code::kInvalidArgument);
    return submission.status().message();
  };
  EXPECT_THAT(refused([](auto& request) { request.add_after(); }), StartsWith("after.job: "));
  EXPECT_THAT(refused([](auto& request) { request.add_after()->set_job("too long a name"); }),
              StartsWith("after.job: "));
  EXPECT_THAT(refused([](auto& request) {
                request.add_after()->set_job("k7");
                request.mutable_after(0)->set_condition(static_cast<v1::DependencyCondition>(9));
              }),
              StartsWith("after.condition: "));
  EXPECT_THAT(refused([](auto& request) {
                for (int i = 0; i < 257; ++i) request.add_after()->set_job("k7");
              }),
              StartsWith("after: "));
  EXPECT_THAT(refused([](auto& request) { request.set_notify(std::string(4097, 'a')); }), StartsWith("notify: "));
  EXPECT_THAT(refused([](auto& request) { request.mutable_array(); }), StartsWith("array: "));
}

TEST(JobSpecConvert, ManyLabelsAreTooMany) {
  v1::SubmitRequest request = plain_request();
  for (int i = 0; i < 65; ++i) request.add_labels()->set_name("a");
  EXPECT_THAT(submission_of(request).status().message(), HasSubstr("more than 64"));
}

v1::SubmitRequest request_with_roles() {
  model::JobSpec job;
  job.workdir = "/work";
  job.placement.np = 3;
  job.roles = {{.name = "a", .np = 1, .command = {"./a", "{rank}"}, .environment = {"SECRET=x"}, .workdir = "/d"},
               {.name = "b", .np = 2, .command = {"./b"}, .is_service = true}};
  job.expands_roles = true;
  job.stages = {{"/src", "/dst/"}};
  job.stage_env = "/opt/venv";
  v1::SubmitRequest request;
  *request.mutable_spec() = to_proto(job);
  set_environment({{"SECRET", "x"}}, *request.add_role_environment()->mutable_environment());
  request.add_role_environment();
  return request;
}

TEST(JobSpecConvert, RolesAndStagedPathsTravel) {
  const auto submission = submission_of(request_with_roles());
  ASSERT_TRUE(submission.ok()) << submission.status();
  const model::JobSpec& job = submission->job;
  ASSERT_EQ(job.roles.size(), 2u);
  EXPECT_EQ(job.roles[0].name, "a");
  EXPECT_THAT(job.roles[0].command, ElementsAre("./a", "{rank}"));
  EXPECT_THAT(job.roles[0].environment, ElementsAre("SECRET=x"));
  EXPECT_EQ(job.roles[0].workdir, "/d");
  EXPECT_FALSE(job.roles[0].is_service);
  EXPECT_EQ(job.roles[1].np, 2);
  EXPECT_TRUE(job.roles[1].is_service);
  EXPECT_TRUE(job.expands_roles);
  EXPECT_FALSE(job.is_dmlc);
  EXPECT_THAT(job.stages, ElementsAre(model::StagedPath{"/src", "/dst/"}));
  EXPECT_EQ(job.stage_env, "/opt/venv");
}

TEST(JobSpecConvert, ValuesOfRolesAreLeftOutOfWhatIsShown) {
  const v1::SubmitRequest shown = without_values(request_with_roles());
  EXPECT_EQ(shown.role_environment(0).environment(0).name(), "SECRET");
  EXPECT_EQ(shown.role_environment(0).environment(0).value(), "");
}

TEST(JobSpecConvert, RolesThatMakeNoSense) {
  const auto refusal = [](const std::function<void(v1::SubmitRequest&)>& change) {
    v1::SubmitRequest request = request_with_roles();
    change(request);
    return submission_of(request).status().message();
  };
  EXPECT_THAT(refusal([](auto& r) { r.mutable_spec()->set_size(4); }), HasSubstr("the roles have 3 ranks together"));
  EXPECT_THAT(refusal([](auto& r) { r.mutable_spec()->mutable_roles(0)->set_name("-"); }), HasSubstr("spec.roles"));
  EXPECT_THAT(refusal([](auto& r) { r.mutable_spec()->mutable_roles(0)->set_name("b"); }),
              HasSubstr("two roles are named b"));
  EXPECT_THAT(refusal([](auto& r) { r.mutable_spec()->mutable_roles(0)->set_size(0); }), HasSubstr("spec.roles.size"));
  EXPECT_THAT(refusal([](auto& r) { r.mutable_spec()->mutable_roles(0)->clear_command(); }),
              HasSubstr("spec.roles.command: is missing"));
  EXPECT_THAT(refusal([](auto& r) { r.mutable_spec()->mutable_roles(0)->set_working_directory("d"); }),
              HasSubstr("must be an absolute path"));
  EXPECT_THAT(refusal([](auto& r) { r.add_role_environment(); }), HasSubstr("role_environment: 3 for 2 roles"));
  EXPECT_THAT(refusal([](auto& r) { r.mutable_spec()->mutable_stages(0)->set_source("x"); }),
              HasSubstr("spec.stages: 'x' is not an absolute path"));
  EXPECT_THAT(refusal([](auto& r) { r.mutable_spec()->set_stage_env("x"); }),
              HasSubstr("spec.stage_env: 'x' is not an absolute path"));
  EXPECT_THAT(refusal([](auto& r) {
                r.mutable_spec()->clear_roles();
                r.clear_role_environment();
              }),
              HasSubstr("spec.command: is missing"));
}

TEST(JobSpecConvert, ThePolicyAfterAFailureComesBack) {
  model::JobSpec job;
  job.command = {"true"};
  job.workdir = "/";
  job.max_restarts = 2;
  EXPECT_FALSE(to_proto(job).has_failure()) << "older launcherds must read the same spec";
  job.failure = {.on_failure = model::OnFailure::kShrink,
                 .min_ranks = 2,
                 .min_hosts = 3,
                 .max_ranks = 8,
                 .progress_text = "step",
                 .progress_file = "out/last",
                 .failed_host_cooldown = std::chrono::milliseconds(90'500)};
  const auto back = job_spec_of(to_proto(job));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->failure.on_failure, model::OnFailure::kShrink);
  EXPECT_EQ(back->failure.min_ranks, 2);
  EXPECT_EQ(back->failure.min_hosts, 3);
  EXPECT_EQ(back->failure.max_ranks, 8);
  EXPECT_EQ(back->failure.progress_text, "step");
  EXPECT_EQ(back->failure.progress_file, "out/last");
  EXPECT_EQ(back->failure.failed_host_cooldown, std::chrono::milliseconds(90'500));
}

TEST(JobSpecConvert, ThePolicyOfHangsComesBack) {
  model::JobSpec job;
  job.command = {"true"};
  job.workdir = "/";
  EXPECT_FALSE(to_proto(job).has_hang()) << "older launcherds must read the same spec";
  for (const model::OnHang on_hang : {model::OnHang::kWarn, model::OnHang::kRestart, model::OnHang::kKill}) {
    job.hang = {.timeout = std::chrono::milliseconds(3'500), .on_hang = on_hang};
    const auto back = job_spec_of(to_proto(job));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->hang, job.hang);
  }
  v1::JobSpec wrong = to_proto(job);
  wrong.mutable_hang()->set_on_hang(static_cast<v1::OnHang>(9));
  EXPECT_THAT(job_spec_of(wrong).status().message(), StartsWith("spec.hang.on_hang: unknown value 9"));
}

TEST(JobSpecConvert, APolicyThatCannotBeIsRefused) {
  const auto refusal = [](const std::function<void(v1::JobSpec&)>& change) {
    v1::SubmitRequest request = plain_request();
    change(*request.mutable_spec());
    return submission_of(request).status().message();
  };
  EXPECT_THAT(refusal([](v1::JobSpec& spec) { spec.mutable_failure()->set_on_failure(static_cast<v1::OnFailure>(9)); }),
              StartsWith("spec.failure.on_failure: unknown value 9"));
  EXPECT_THAT(refusal([](v1::JobSpec& spec) { spec.mutable_failure()->set_min_ranks(-1); }),
              StartsWith("spec.failure.min_ranks"));
  EXPECT_THAT(refusal([](v1::JobSpec& spec) {
                spec.mutable_failure()->set_min_ranks(4);
                spec.mutable_failure()->set_max_ranks(3);
              }),
              StartsWith("spec.failure.max_ranks: 3 is less than min_ranks 4"));
  EXPECT_THAT(refusal([](v1::JobSpec& spec) {
                spec.mutable_failure()->set_on_failure(v1::ON_FAILURE_REPLACE);
                v1::WantedHost& host = *spec.add_hosts();
                host.set_name("n1");
                host.add_ranks()->set_rank(0);
              }),
              HasSubstr("jobs with exact places keep their hosts"));
}

TEST(JobSpecConvert, RanksThatLiveOnComeBackAsTheyWere) {
  model::JobSpec job = *job_spec_of(plain_request().spec());
  job.live =
      model::ElasticSpec{.min_ranks = 2, .max_ranks = 8, .reset_limit = 0, .elastic_timeout = std::chrono::seconds(7)};
  job.live->cooldown = {3, 9};
  const model::JobSpec again = *job_spec_of(to_proto(job));
  ASSERT_TRUE(again.live.has_value());
  EXPECT_EQ(again.live->min_ranks, 2);
  EXPECT_EQ(again.live->max_ranks, 8);
  EXPECT_EQ(again.live->reset_limit, 0);
  EXPECT_EQ(again.live->elastic_timeout, std::chrono::seconds(7));
  EXPECT_EQ(again.live->cooldown, std::pair(3, 9));
  EXPECT_EQ(again.failure.on_failure, model::OnFailure::kFail);
  job.live = model::ElasticSpec();
  const model::JobSpec plain = *job_spec_of(to_proto(job));
  EXPECT_FALSE(plain.live->max_ranks || plain.live->reset_limit || plain.live->cooldown);
  EXPECT_FALSE(job_spec_of(plain_request().spec())->live.has_value());
}

TEST(JobSpecConvert, RanksThatLiveOnEndWithTheirLauncherd) {
  v1::SubmitRequest request = plain_request();
  EXPECT_TRUE(submission_of(request)->requests.hold);
  request.mutable_spec()->mutable_failure()->set_on_failure(v1::ON_FAILURE_LIVE);
  EXPECT_FALSE(submission_of(request)->requests.hold);
}

TEST(JobSpecConvert, RefusesWhatRanksThatLiveOnCannotHave) {
  const auto refused = [](const std::function<void(v1::JobSpec&)>& change) {
    v1::SubmitRequest request = plain_request();
    request.mutable_spec()->mutable_failure()->set_on_failure(v1::ON_FAILURE_LIVE);
    request.mutable_spec()->mutable_failure()->set_min_ranks(2);
    request.mutable_spec()->mutable_failure()->set_max_ranks(4);
    request.mutable_spec()->set_size(2);
    change(*request.mutable_spec());
    return submission_of(request).status().message();
  };
  EXPECT_EQ(refused([](v1::JobSpec&) {}), "");
  EXPECT_THAT(refused([](v1::JobSpec& spec) { spec.set_size(1); }), StartsWith("spec.size: 1 is not between"));
  EXPECT_THAT(refused([](v1::JobSpec& spec) { spec.set_size(5); }), StartsWith("spec.size: 5 is not between"));
  EXPECT_THAT(refused([](v1::JobSpec& spec) { spec.set_max_restarts(1); }), HasSubstr("do not start again"));
  EXPECT_THAT(refused([](v1::JobSpec& spec) { spec.mutable_failure()->set_progress_text("saved"); }),
              HasSubstr("do not start again"));
  EXPECT_THAT(refused([](v1::JobSpec& spec) {
                spec.mutable_failure()->mutable_live()->mutable_shortest_cooldown()->set_seconds(1);
              }),
              HasSubstr("give both ends of the range"));
  EXPECT_THAT(refused([](v1::JobSpec& spec) { spec.mutable_failure()->mutable_live()->set_reset_limit(-1); }),
              StartsWith("spec.failure.live.reset_limit"));
  EXPECT_THAT(refused([](v1::JobSpec& spec) {
                spec.mutable_failure()->set_on_failure(v1::ON_FAILURE_SHRINK);
                spec.mutable_failure()->mutable_live();
              }),
              StartsWith("spec.failure.live: only with"));
}

TEST(JobSpecConvert, OnlyJobsThatChangeTheirSizeHaveAnElasticPolicy) {
  v1::SubmitRequest request = plain_request();
  EXPECT_EQ(submission_of(request)->requests.elastic_policy, model::ElasticPolicy::kFixed);
  request.mutable_spec()->set_elastic_policy(v1::ELASTIC_POLICY_GIVE_BACK);
  EXPECT_THAT(submission_of(request).status().message(), StartsWith("spec.elastic_policy: this job keeps its size"));
  request.mutable_spec()->mutable_failure()->set_on_failure(v1::ON_FAILURE_SHRINK);
  EXPECT_EQ(submission_of(request)->requests.elastic_policy, model::ElasticPolicy::kGiveBack);
  request.mutable_spec()->set_elastic_policy(v1::ELASTIC_POLICY_BOTH);
  EXPECT_EQ(submission_of(request)->requests.elastic_policy, model::ElasticPolicy::kBoth);
  request.mutable_spec()->set_elastic_policy(static_cast<v1::ElasticPolicy>(9));
  EXPECT_THAT(submission_of(request).status().message(), StartsWith("spec.elastic_policy: unknown value 9"));
}

}  // namespace
}  // namespace muster::proto::job_spec_convert_test
