"""The paper, reproduced: one file a table or figure, each an experiment that can be stopped and continued."""
