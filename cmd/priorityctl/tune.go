package main

import "github.com/spf13/cobra"

func newTune() *cobra.Command { return &cobra.Command{Use: "tune"} }
