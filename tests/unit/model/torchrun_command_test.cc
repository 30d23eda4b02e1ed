#include "model/torchrun_command.h"

#include <gtest/gtest.h>

#include "base/strings.h"

namespace muster::model::torchrun_command_test {
namespace {

using Words = std::vector<std::string>;

Words words_of(const std::string& line) {
  Words words;
  for (const std::string_view word : base::split(line, ' ')) words.emplace_back(word);
  return words;
}

TEST(TorchrunCommand, IsRecognisedByTheProgram) {
  for (const char* line :
       {"torchrun train.py", "/usr/bin/torchrun train.py", "python -m torch.distributed.run train.py",
        "/opt/py/bin/python3.11 -u -m torch.distributed.run train.py", "python3 -m muster.torchrun train.py",
        "torchrun --nnodes=2 --nproc-per-node 2 train.py", "torchrun -m package.train", "torchrun -r 3 -t3 train.py",
        "torchrun --rdzv-backend=c10d train.py", "torchrun --rdzv_backend muster train.py",
        // Options behind the script are the script's.
        "torchrun train.py --node-rank 1 --standalone", "torchrun --no_python prog --master-addr x",
        "torchrun --role --standalone train.py"}) {
    EXPECT_TRUE(is_torchrun_command(words_of(line))) << line;
  }
}

TEST(TorchrunCommand, IsNotRecognisedInOtherPrograms) {
  for (const char* line :
       {"", "python train.py", "python -m torch.distributed.launch train.py", "python -c torchrun", "mytorchrun x",
        "env torchrun train.py", "python -m", "python -u -m", "pythonic -m torch.distributed.run train.py", "torchrun",
        "torchrun --help", "torchrun --nnodes 2"}) {
    EXPECT_FALSE(is_torchrun_command(words_of(line))) << line;
  }
}

TEST(TorchrunCommand, KeepsARendezvousOfTheUsersOwn) {
  for (const char* options : {"--standalone", "--rdzv-endpoint=h:1", "--rdzv_endpoint h:1", "--master-addr h",
                              "--master_addr=h", "--node-rank 1", "--node_rank=1", "--rdzv-backend etcd-v2",
                              "--rdzv_backend=static", "--nnodes 2 --node-rank 0", "-m --standalone"}) {
    EXPECT_FALSE(is_torchrun_command(words_of(std::string("torchrun ") + options + " train.py"))) << options;
  }
}

TEST(TorchrunCommand, IsServedOnlyInPlainJobsOfTorch) {
  JobSpec job;
  job.command = {"torchrun", "train.py"};
  EXPECT_TRUE(serves_torchrun(job));
  JobSpec other = job;
  other.torch_agent_store = true;
  EXPECT_FALSE(serves_torchrun(other));
  other = job;
  other.roles.emplace_back();
  EXPECT_FALSE(serves_torchrun(other));
  other = job;
  other.runtime = Runtime::kMpi;
  EXPECT_FALSE(serves_torchrun(other));
  other = job;
  other.live.emplace();
  EXPECT_FALSE(serves_torchrun(other));
}

TEST(TorchrunCommand, VariablesMayNameTheUsersRendezvous) {
  base::Environment environment;
  EXPECT_FALSE(has_own_rendezvous(environment));
  environment.set("PET_NNODES", "2");
  EXPECT_FALSE(has_own_rendezvous(environment));
  environment.set("PET_RDZV_ENDPOINT", "h:1");
  EXPECT_TRUE(has_own_rendezvous(environment));
}

}  // namespace
}  // namespace muster::model::torchrun_command_test
