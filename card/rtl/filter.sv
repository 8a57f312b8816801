// The firewall: 16 rules, each a value and a mask for source, destination, ports and protocol of an
// IPv4 packet (so prefixes, ports and protocols, or any bits of them); the first that matches says
// accept or drop. No match, or not IPv4: accept. A rule is four words: source and its mask,
// destination and its mask, ports (source in 15:0) and their mask, and protocol in 7:0, its mask in
// 15:8, bit 16 accept, bit 17 rule in use. All but these bits as bytes of the packet. Looks at a
// rule a clock once the frame has been shown (look_align). A fragment without ports has ports 0.
module filter (
    input  logic        clk,
    input  logic        rst,
    input  logic        rule_write,
    input  logic [3:0]  rule_number,
    input  logic [1:0]  rule_word, // 0 to 3; a rule counts from its last word on
    input  logic [63:0] rule_data,
    input  logic        start, // before the first word
    input  logic        a_valid,
    input  logic [63:0] a_data,
    input  logic [10:0] a_word,
    input  logic        finished, // after the last word
    output logic        done,     // pulse
    output logic        accept,   // from done to start
    output logic [7:0]  rule,     // 255: none
    output logic [7:0]  protocol,
    output logic [15:0] port // destination, as bytes of the packet
);
  logic [63:0] source_rule[0:15];
  logic [63:0] destination_rule[0:15];
  logic [63:0] ports_rule[0:15];
  logic [16:0] last_rule[0:15];
  logic [63:0] rs, rd, rp;
  logic [16:0] rl;
  logic [15:0] used;
  logic [31:0] source, destination, ports;
  assign port = ports[31:16];
  logic        version4, fragment, running, compare;
  logic [3:0]  ihl, at, compared;
  logic [11:0] ports_lane; // in units of 2 bytes

  always_ff @(posedge clk) begin
    if (rule_write && rule_word == 2'd0) source_rule[rule_number] <= rule_data;
    if (rule_write && rule_word == 2'd1) destination_rule[rule_number] <= rule_data;
    if (rule_write && rule_word == 2'd2) ports_rule[rule_number] <= rule_data;
    if (rule_write && rule_word == 2'd3) last_rule[rule_number] <= rule_data[16:0];
    rs <= source_rule[at];
    rd <= destination_rule[at];
    rp <= ports_rule[at];
    rl <= last_rule[at];
  end
  assign ports_lane = {7'b0, ihl, 1'b0};

  logic match;
  assign match = used[compared] && ((source ^ rs[31:0]) & rs[63:32]) == '0
      && ((destination ^ rd[31:0]) & rd[63:32]) == '0 && ((ports ^ rp[31:0]) & rp[63:32]) == '0
      && ((protocol ^ rl[7:0]) & rl[15:8]) == '0;

  always_ff @(posedge clk) begin
    done <= 1'b0;
    if (start) begin
      version4 <= 1'b0;
      fragment <= 1'b0;
      ports <= '0;
      protocol <= '0;
      ihl <= '0;
    end else if (a_valid) begin
      if (a_word == 11'd0) begin
        version4 <= a_data[7:4] == 4'd4;
        ihl <= a_data[3:0];
        fragment <= a_data[52:48] != '0 || a_data[63:56] != '0;
      end
      if (a_word == 11'd1) begin
        protocol <= a_data[15:8];
        source <= a_data[63:32];
      end
      if (a_word == 11'd2) destination <= a_data[31:0];
      for (int i = 0; i < 4; i++) begin
        if (a_word != '0 && !fragment && {a_word[9:0], 2'(i)} == ports_lane) ports[15:0] <= a_data[16*i +: 16];
        if (a_word != '0 && !fragment && {a_word[9:0], 2'(i)} == ports_lane + 12'd1) ports[31:16] <= a_data[16*i +: 16];
      end
    end
    if (rst) begin
      used <= '0;
      running <= 1'b0;
      compare <= 1'b0;
    end else begin
      if (rule_write && rule_word == 2'd3) used[rule_number] <= rule_data[17];
      compare <= running;
      compared <= at;
      if (finished) begin
        accept <= 1'b1;
        rule <= 8'hff;
        running <= version4 && used != '0;
        done <= !version4 || used == '0;
        at <= '0;
      end else if (running || compare) begin
        at <= at + 1'b1;
        if (at == 4'd15) running <= 1'b0;
        if (compare && match) begin
          accept <= rl[16];
          rule <= {4'b0, compared};
        end
        if (compare && (match || compared == 4'd15)) begin
          running <= 1'b0;
          compare <= 1'b0;
          done <= 1'b1;
        end
      end
    end
  end
endmodule
